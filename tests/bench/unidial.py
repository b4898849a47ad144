"""`make bench-unidial`: all of MathChat with its judgements beside their ideal, and all of LoCoMo
in bounded memory.

MathChat: the whole command against a model's server and a judge's. The ideal is requests / in
flight x latency; a share is the ideal over the time from first request to last answer, as the
servers saw it. Judgements begin while dialogues are played, so the first two shares are of the
dialogues alone and of both together. A second judge then rates the same answers: its share is the
judge's alone. LoCoMo: 1,986 questions on ten talks of hundreds of turns are planned, asked with the
whole talk before them, and scored; beside them a tenth, so that what grows with the number of
questions can be seen.
"""

import argparse
import gzip
import json
import sys
import tempfile
from collections.abc import Mapping
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

from tasks.benchmarks.unidial.datasets.mathchat import DATASET as MATHCHAT
from tests.bench.corpora import DATA
from tests.bench.latency_server import MARK
from tests.bench.processes import Server, Watched, environment, latency_server, watch

LATENCY_S, AIM, LIMIT_S = 0.2, 0.85, 590.0
N_QUESTIONS = 1986
ANSWER = f"Half of 36 is 18, and what is left over does not count here. The answer is 18. ({MARK})"
"""No two are alike, so that each is judged."""
RATING = '{"rationale": "It is right, but could say why.", "score": 9}'


def mathchat(data: Path, lines: int | None, in_flight: int, workers: int) -> None:
    """Play and judge MathChat, or so many lines of each file, then judge it by another judge; print
    the shares of the ideal.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if lines is not None:
            data = _beginnings(data, folder / "data", lines)
        for name, text in (("answer", ANSWER), ("rating", RATING)):
            (folder / name).write_text(text, encoding="utf-8")
        with (
            latency_server(LATENCY_S, 0.0, 3 * LIMIT_S, answer=folder / "answer") as model,
            latency_server(
                LATENCY_S, 0.0, 3 * LIMIT_S, answer=folder / "rating", name="judge"
            ) as judge,
        ):
            asked = [
                *_run("mathchat", data, model, None, in_flight, workers),
                "--judge",
                f"openai:judge@{judge.base_url}",
            ]
            ran = _watch([*asked, "--judge-revision", "1"], folder / "home")
            line, said, rated = json.loads(ran.out.splitlines()[-1]), model.stats(), judge.stats()
            both = {"requests": said["requests"] + rated["requests"]}
            both["window_s"] = max(said["last_s"], rated["last_s"]) - min(
                said["first_s"], rated["first_s"]
            )
            print(
                f"{line['episodes']} dialogues of MathChat, {LATENCY_S:g} s latency, "
                f"{in_flight} in flight, {workers} workers"
            )
            for what, stats in (("dialogues", said), ("dialogues and judgements together", both)):
                _tell(what, stats, in_flight)
            print(f"  {_cost(ran, both['requests'])}; published: {line['published']}", flush=True)
            judge.reset()
            ran = _watch([*asked, "--judge-revision", "2"], folder / "home")
            _tell("judgements alone, by a second judge", judge.stats(), in_flight)
            print(f"  {_cost(ran, judge.stats()['requests'])}", flush=True)


def _beginnings(data: Path, folder: Path, lines: int) -> Path:
    folder.mkdir()
    for path in MATHCHAT.find(data):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        (folder / path.name.removesuffix(".gz")).write_bytes(
            b"".join(islice(BytesIO(content), lines))
        )
    return folder


def locomo(data: Path, limit: int | None, in_flight: int, workers: int) -> None:
    """Ask LoCoMo's questions, and print the highest memory."""
    with (
        tempfile.TemporaryDirectory() as place,
        latency_server(LATENCY_S, 0.0, 3 * LIMIT_S) as model,
    ):
        ran = _watch(_run("locomo", data, model, limit, in_flight, workers), Path(place) / "home")
        line, stats = json.loads(ran.out.splitlines()[-1]), model.stats()
    print(
        f"{line['episodes']} questions of LoCoMo: {stats['requests']} requests, "
        f"{line['n_unscored']} unscored"
    )
    print(
        f"  peak {ran.peak_mb:.0f} MB, of all processes together; whole command {ran.wall_s:.0f} s",
        flush=True,
    )


def _run(
    dataset: str, data: Path, model: Server, limit: int | None, in_flight: int, workers: int
) -> list[str]:
    said = (
        "run",
        f"unidial.{dataset}",
        "--data",
        data,
        "--model",
        f"openai:mock@{model.base_url}",
        "--revision",
        "1",
    )
    size = (
        "--concurrency",
        in_flight,
        "--workers",
        workers,
        *(("--limit", limit) if limit else ()),
    )
    return [sys.executable, "-P", "-m", "flows.cli", *map(str, (*said, *size)), "--json"]


def _watch(command: list[str], home: Path) -> Watched:
    return watch(command, environment({"PARLEY_HOME": str(home)}), LIMIT_S)


def _tell(what: str, stats: Mapping[str, Any], in_flight: int) -> None:
    ideal_s = stats["requests"] / in_flight * LATENCY_S
    print(
        (
            f"  {what}: {stats['requests']} requests; share {ideal_s / stats['window_s']:.2f} "
            f"(aim {AIM}),"
        ),
        end="",
    )
    print(f" window {stats['window_s']:.1f} s, ideal {ideal_s:.1f} s")


def _cost(ran: Watched, n_requests: int) -> str:
    return (
        f"whole command {ran.wall_s:.0f} s; processor {1000 * ran.cpu_s / n_requests:.2f} ms a "
        f"request; peak {ran.peak_mb:.0f} MB"
    )


def main() -> None:
    """Measure both, or one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("mathchat", "locomo"), help="half of it")
    parser.add_argument(
        "--small", action="store_true", help="a tenth of it; start and end weigh more"
    )
    parser.add_argument(
        "--data", type=Path, default=DATA, help="folder with the folders mathchat and locomo"
    )
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    for name in ("mathchat", "locomo"):
        data = asked.data / name
        if asked.only not in (None, name):
            continue
        if not data.is_dir():
            print(
                f"{name} is not measured: its data are not in {asked.data}. Name their "
                "folder by --data"
            )
        elif name == "mathchat":
            mathchat(data, 132 if asked.small else None, asked.in_flight, asked.workers)
        else:
            for limit in (N_QUESTIONS // 10, *(() if asked.small else (None,))):
                locomo(data, limit, asked.in_flight, asked.workers)


if __name__ == "__main__":
    main()
