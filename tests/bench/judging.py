"""`python -m tests.bench.judging`: a judge's share of the ideal, from first request to last answer,
on the whole command.

Ideal = ceil(judgements / in flight) x latency. The dialogues are those of `control:gold`, which
costs nothing. A second judge then rates them again: its share is the judge's alone. The first one's
is that of a run whose dialogues want the same processors.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tasks.benchmarks.advanced import Judging
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.setting import Setting
from tests.bench.processes import Watched, environment, latency_server, watch
from tests.bench.synthetic import BENCHMARK as DIALOGUES
from tests.crash.night import write_plugin
from tests.tasks.benchmarks.judged import BENCHMARK as JUDGED
from tests.tasks.benchmarks.judged import CLEAR, GOOD, judge_runs

NAME, TURNS, LATENCY_S, AIM, LIMIT_S = "bench", 6, 0.2, 0.85, 300.0

BENCHMARK: Benchmark = replace(
    JUDGED,
    about=replace(JUDGED.about, name=NAME),
    data=replace(DIALOGUES.data, versions=("sample",), default_version="sample"),
    settings={
        "rate": Setting(
            name="rate", help="every answer is rated", rubrics=(CLEAR.name,), runs_programs=False
        )
    },
    judging=Judging({CLEAR.name: replace(CLEAR, drift=())}, judge_runs),
    scores=replace(JUDGED.scores, due=None),
)


def main() -> None:
    """Print the share, seconds and processor time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--judgements", type=int, default=12_000)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_plugin(folder / "plugin", NAME, f"{__spec__.name}:BENCHMARK")
        (folder / "turns.json").write_text(json.dumps([TURNS] * (asked.judgements // TURNS)))
        (folder / "answer.txt").write_text(GOOD)
        with latency_server(LATENCY_S, 0.0, 4 * LIMIT_S, answer=folder / "answer.txt") as server:
            for revision, what in (
                ("1", "beside dialogues that are played as fast as can be"),
                ("2", "of dialogues that are there"),
            ):
                said = (
                    "run",
                    f"{NAME}.rate",
                    "--data",
                    folder / "turns.json",
                    "--model",
                    "control:gold",
                )
                judge = (
                    "--judge",
                    f"openai:mock@{server.base_url}",
                    "--judge-revision",
                    revision,
                    "--json",
                )
                size = ("--concurrency", asked.in_flight, "--workers", asked.workers)
                command = [
                    sys.executable,
                    "-P",
                    "-m",
                    "flows.cli",
                    *map(str, (*said, *judge, *size)),
                ]
                ran = watch(
                    command,
                    environment({"PARLEY_HOME": str(folder / "home")}, folder / "plugin"),
                    LIMIT_S,
                )
                _tell(
                    what,
                    server.stats(),
                    json.loads(ran.out)["judgements_asked"],
                    asked.in_flight,
                    ran,
                )
                server.reset()


def _tell(what: str, stats: Mapping[str, Any], n: int, in_flight: int, ran: Watched) -> None:
    ideal_s = math.ceil(n / in_flight) * LATENCY_S
    share = ideal_s / stats["window_s"]
    print(
        f"{n} judgements {what}: {stats['repeated']} repeated, {stats['max_in_flight']} in "
        "flight at most"
    )
    print(
        f"  share {share:.2f} (aim {AIM}): window {stats['window_s']:.1f} s, ideal {ideal_s:.1f} s"
    )
    print(
        f"  whole command {ran.wall_s:.1f} s, processor {1000 * ran.cpu_s / n:.2f} ms a "
        f"judgement; peak {ran.peak_mb:.0f} MB"
    )


if __name__ == "__main__":
    main()
