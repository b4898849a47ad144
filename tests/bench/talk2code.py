"""`make bench-talk2code`: the interactive track beside its ideal, and the time that the paper's
turns take to embed.

Dialogues: as many as the paper has, against subject and simulated user on one local server, without
programs: the model asks on in every round. The ideal is requests / in flight x latency; the share
is the ideal over the time from first request to last answer, as the server saw it. The path is
whole: command, Prefect, Dask, journal, Parquet, publication.

Turns: distinct texts as long as the sample's replies, embedded by MiniLM and kept in the lake, as a
run's are.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.resources import as_file
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from schemas.dialog import Role
from schemas.run import ModelEndpoint
from tasks.benchmarks.talk2code import BENCHMARK
from tasks.language.embedding import EndpointEmbedder
from tasks.language.model_spec import REMEDY, parse_embedder
from tasks.language.servers.embedding_server import embedding_server
from tasks.storage.parquet_store import Lake
from tasks.storage.vectors import Vectors
from tests.bench.processes import environment, latency_server, watch

N_DIALOGUES, N_TURNS, ROUNDS = 2664, 14_396, 5
PERSONAS_A_TASK = 3
LATENCY_S, AIM, EMBED_AIM_S, LIMIT_S = 0.2, 0.85, 300.0, 590.0
REPLY = (
    "Shall an empty list give zero, and may a number stand in it twice? Tell me what the result "
    "should be then, please."
)
"""What subject and user both say: no program, so that every dialogue has all its rounds."""


def dialogues(n: int, in_flight: int, workers: int) -> None:
    """Play `n` dialogues of `ROUNDS` rounds each, and print their share of the ideal."""
    n_requests = n * (2 * ROUNDS - 1)
    ideal_s = n_requests / in_flight * LATENCY_S
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "tasks.jsonl").write_text(
            "".join(f"{json.dumps(task)}\n" for task in _tasks(n)), encoding="utf-8"
        )
        (folder / "reply.txt").write_text(REPLY)
        with latency_server(LATENCY_S, 0.0, 2 * LIMIT_S, answer=folder / "reply.txt") as server:
            model = f"openai:mock@{server.base_url}"
            said = (
                "run",
                "talk2code.interactive",
                "--data",
                folder / "tasks.jsonl",
                "--model",
                model,
                "--simulator",
                model,
            )
            revisions = (
                "--revision",
                "1",
                "--simulator-revision",
                "1",
                "--option",
                f"turns={ROUNDS}",
                "--json",
            )
            size = ("--concurrency", in_flight, "--workers", workers)
            command = [
                sys.executable,
                "-P",
                "-m",
                "flows.cli",
                *map(str, (*said, *revisions, *size)),
            ]
            ran = watch(command, environment({"PARLEY_HOME": str(folder / "home")}), LIMIT_S)
            stats, told = server.stats(), json.loads(ran.out.splitlines()[-1])
    share = ideal_s / stats["window_s"]
    print(
        f"{n} interactive dialogues of {ROUNDS} rounds, {LATENCY_S:g} s latency, {in_flight} "
        f"in flight, {workers} workers"
    )
    counts = (
        f"{stats['requests']} requests for {n_requests}, {stats['max_in_flight']} in flight at most"
    )
    print(f"  {counts}; published: {told['published']}")
    print(
        f"  share {share:.2f} (aim {AIM}): window {stats['window_s']:.1f} s, ideal {ideal_s:.1f} s"
    )
    print(
        (
            f"  whole command {ran.wall_s:.1f} s; processor "
            f"{1000 * ran.cpu_s / stats['requests']:.2f} ms a request"
        ),
        flush=True,
    )


def _tasks(n: int) -> Iterator[dict[str, Any]]:
    """Tasks in the native format, made of the sample's first one, with a user of each level."""
    with as_file(BENCHMARK.data.sample) as sample:
        task = json.loads((sample / "talk2code.jsonl").read_text(encoding="utf-8").splitlines()[0])
    users = task["dialogues"][:PERSONAS_A_TASK]
    for number in range(-(-n // PERSONAS_A_TASK)):
        left = n - number * PERSONAS_A_TASK
        yield task | {
            "task_id": f"bench/{number:05}",
            "problem": f"{task['problem']} ({number})",
            "dialogues": users[:left],
        }


def turns(n: int) -> None:
    """Embed `n` distinct texts by MiniLM, and print how long that takes."""
    if find_spec("FlagEmbedding") is None:
        print(f"turns are not embedded: {REMEDY}")
        return
    chosen = parse_embedder("embedded:minilm")
    texts = _texts(n)
    with (
        tempfile.TemporaryDirectory() as place,
        embedding_server(chosen, Path(place)) as url,
    ):
        access = chosen.at(ModelEndpoint(base_url=url)).limited(8)

        async def embed() -> int:
            vectors = Vectors(
                Lake(Path(place) / "lake"), EndpointEmbedder(chosen.identity, lambda: access)
            )
            try:
                return len(await vectors.find(texts))
            finally:
                await vectors.aclose()

        began, used_s = time.monotonic(), _cpu_s()
        n_found = asyncio.run(embed())
        wall_s, cpu_s = time.monotonic() - began, _cpu_s() - used_s
    words = sum(len(text.split()) for text in texts) / n
    print(
        f"{n_found} turns of {words:.0f} words embedded in {wall_s:.0f} s, {n / wall_s:.0f} "
        "a second"
    )
    print(f"  aim: {N_TURNS} in {EMBED_AIM_S:.0f} s; processor {1000 * cpu_s / n:.0f} ms a turn")


def _cpu_s() -> float:
    """Processor seconds of the processes below this one."""
    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return sum(one.user + one.system for one in times)


def _texts(n: int) -> tuple[str, ...]:
    """Replies of the sample with their sentences' words in another order: as long as they are, and
    all distinct.
    """
    with as_file(BENCHMARK.data.sample) as sample:
        dialogs = BENCHMARK.data.stage(sample, "sample").dialogs
    replies = [
        turn.content or ""
        for dialog in dialogs
        for turn in dialog.turns
        if turn.role is Role.ASSISTANT
    ]
    chance, found = random.Random(1), dict[str, None]()
    while len(found) < n:
        words = chance.choice(replies).split(" ")
        chance.shuffle(words)
        found[" ".join(words)] = None
    return tuple(found)


def main() -> None:
    """Measure both, or one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("dialogues", "turns"), help="half of it")
    parser.add_argument(
        "--small", action="store_true", help="a tenth of it; start and end weigh more"
    )
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    part = 10 if asked.small else 1
    if asked.only != "turns":
        dialogues(N_DIALOGUES // part, asked.in_flight, asked.workers)
    if asked.only != "dialogues":
        turns(N_TURNS // part)


if __name__ == "__main__":
    main()
