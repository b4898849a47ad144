"""`make bench-night`: a night's runs side by side, and one after another, beside the ideal of the
slowest endpoint.

Each endpoint answers after a known time and takes so many requests at once; its ideal is
ceil(dialogues / in flight) x turns x latency for all of its runs together. The share is the largest
of these ideals over the time from the first request of the night to its last answer, as the servers
saw it. Where programs run, the whole time counts, in seconds.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench.processes import Server, Watched, environment, latency_server, watch
from tests.bench.synthetic import write_mixed, write_plugin, write_tasks

LIMIT_S = 580.0
LATENCY_S, IN_FLIGHT, TURNS = 0.2, 64, 6
AIM = 0.9


@dataclass(frozen=True)
class Load:
    """Models, each on an endpoint of its own, in so many settings each."""

    name: str
    n_models: int
    n_settings: int
    tested: bool = False
    """Whether each answer's programs run, in the default sandbox."""
    n_dialogs: int = 300
    """Of each setting."""

    @property
    def ideal_s(self) -> float:
        return math.ceil(self.n_settings * self.n_dialogs / IN_FLIGHT) * TURNS * LATENCY_S

    @property
    def n_turns(self) -> int:
        return self.n_models * self.n_settings * self.n_dialogs * TURNS


LOADS = (Load("models", 4, 3), Load("settings", 1, 6), Load("tested", 4, 1, tested=True))


@contextmanager
def endpoints(load: Load) -> Iterator[Sequence[Server]]:
    """The load's servers."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(latency_server(LATENCY_S, 0.0, 3 * LIMIT_S, name=f"mock-{number}"))
            for number in range(load.n_models)
        ]


def requests(load: Load, servers: Sequence[Server], folder: Path, workers: int) -> Path:
    """What the night is asked for, as a file."""
    if load.tested:
        benchmark: dict[str, Any] = {
            "name": "codeif.static",
            "data": str(write_tasks(folder / "tasks", load.n_dialogs, TURNS)),
        }
        benchmark["dataset_version"] = "current"
    else:
        data = folder / "turns.json"
        write_mixed(data, load.n_dialogs, TURNS, TURNS)
        benchmark = {"name": "talk.static", "data": str(data), "dataset_version": "current"}
    path = folder / "requests.json"
    models = [
        {"spec": f"openai:mock-{n}@{server.base_url}", "revision": "bench"}
        for n, server in enumerate(servers)
    ]
    settings = [benchmark | {"seed": 1000 * number} for number in range(load.n_settings)]
    asked = [
        {
            "model": model,
            "benchmark": setting,
            "sandbox": "zygote",
            "concurrency": IN_FLIGHT,
            "workers": workers,
        }
        for setting in settings
        for model in models
    ]
    path.write_text(json.dumps(asked))
    return path


def night(
    load: Load, servers: Sequence[Server], folder: Path, workers: int, at_once: int
) -> tuple[Watched, float]:
    """A night in a home of its own: what it took, and seconds from the first request to the last
    answer.
    """
    for server in servers:
        server.reset()
    home, plugin = Path(tempfile.mkdtemp(dir=folder)), folder / "plugin"
    command = [
        sys.executable,
        "-m",
        "tests.bench.pooled_night",
        str(requests(load, servers, folder, workers)),
    ]
    environ = environment({"PARLEY_HOME": str(home)}, plugin)
    ran = watch([*command, "--runs-at-once", str(at_once)], environ, LIMIT_S)
    stats = [server.stats() for server in servers]
    if (
        sum(one["requests"] for one in stats) != load.n_turns
        or max(one["max_in_flight"] for one in stats) > IN_FLIGHT
    ):
        print(
            f"  asked {[one['requests'] for one in stats]}, at most "
            f"{[one['max_in_flight'] for one in stats]} in flight"
        )
    return ran, max(one["last_s"] for one in stats) - min(one["first_s"] for one in stats)


def compare(load: Load, workers: int, ways: Sequence[tuple[str, int]]) -> None:
    """One load, side by side and one after another; prints a line for each."""
    with tempfile.TemporaryDirectory() as name, endpoints(load) as servers:
        folder = Path(name)
        write_plugin(folder / "plugin")
        kind = "each answer tested" if load.tested else "no programs"
        print(
            f"\n{load.name}: {load.n_models} models on endpoints of their own x "
            f"{load.n_settings} settings of {load.n_dialogs}"
            f" dialogues of {TURNS} turns, {kind}, {LATENCY_S:g} s, {IN_FLIGHT} in flight an "
            f"endpoint, {workers} workers",
            flush=True,
        )
        print(
            f"{'':32} {'share':>6} {'window s':>9} {'ideal s':>8} {'wall s':>7} "
            f"{'CPU ms/turn':>12} {'peak MB':>8}"
        )
        for way, at_once in ways:
            ran, window_s = night(load, servers, folder, workers, at_once)
            cpu, share = 1000 * ran.cpu_s / load.n_turns, load.ideal_s / window_s
            print(
                (
                    f"  {way:30} {share:6.2f} {window_s:9.1f} {load.ideal_s:8.1f} "
                    f"{ran.wall_s:7.1f} {cpu:12.2f} {ran.peak_mb:8.0f}"
                ),
                flush=True,
            )
            _tell(json.loads(ran.out.splitlines()[-1]))
            if at_once > 1 and not load.tested:
                print(f"  aim {AIM:.2f}: {'reached' if share >= AIM else 'NOT reached'}")


def _tell(said: dict[str, Any]) -> None:
    for status, reason, pending in said["statuses"]:
        if status != "finished" or pending:
            print(f"  a run is {status}, {pending} pending: {reason}")
    for title, stages in said["spent"].items():
        print(f"    {title:34} {', '.join(stages)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [load.name for load in LOADS]
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"any of {', '.join(names)}; without one, all (10 minutes)",
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--dialogues", type=int, default=300, help="of each setting")
    parser.add_argument(
        "--pooled", action="store_true", help="leave out the night whose runs go one after another"
    )
    asked = parser.parse_args()
    if unknown := sorted(set(asked.parts) - set(names)):
        parser.error(f"unknown part {unknown[0]!r}; there are {', '.join(names)}")
    ways = [("side by side", 16), *([] if asked.pooled else [("one after another", 1)])]
    for load in LOADS:
        if load.name in (asked.parts or names):
            compare(replace(load, n_dialogs=asked.dialogues), asked.workers, ways)


if __name__ == "__main__":
    main()
