"""`make bench-convcode`: a static night beside its ideal, with and without programs, and the tests
of a live night.

Replay: tasks x turns, all independent, through the whole path (Prefect, Dask, journal, Parquet,
publication) against a local server. The ideal is ceil(requests / in flight) x latency; the share is
the ideal over the time from first request to last answer, as the server saw it. Once on a sandbox
that runs nothing, once on the zygote, whose programs run beside the dialogues wherever processors
idle. Programs: what a night of tasks x turns of unsolved programs costs, from a sample of them.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import registry
from sandbox.host.python_environment import clean_environment, interpreter
from sandbox.interface import Sandbox
from schemas.run import Limits
from schemas.verdict import Outcome
from tasks.benchmarks.convcode import BENCHMARK
from tests.bench.convcode_tasks import SETTING, answer, tests_of, unsolved, write_tasks
from tests.bench.latency_server import MARK
from tests.bench.pace import AT_ONCE
from tests.bench.processes import Watched, environment, latency_server, watch
from tests.bench.synthetic import write_plugin
from tests.sandbox.programs import run_program

LIMITS = Limits(cpu_s=10, wall_s=60)
LIMIT_S = 590.0
AIM = 0.95


@dataclass(frozen=True)
class Size:
    """How much: of tasks and turns, and of the programs that are measured for a live night."""

    n_tasks: int
    n_turns: int
    n_sampled: int

    @property
    def n_requests(self) -> int:
        return self.n_tasks * self.n_turns


WHOLE, SMALL = Size(1140, 10, 400), Size(114, 10, 60)


@dataclass(frozen=True)
class Asked:
    """The command line."""

    size: Size
    in_flight: int
    workers: int
    latency_s: float

    @property
    def ideal_s(self) -> float:
        return math.ceil(self.size.n_requests / self.in_flight) * self.latency_s


def replay(asked: Asked) -> None:
    """The static night, without and with its programs."""
    size = asked.size
    print(
        f"static replay: {size.n_tasks} tasks x {size.n_turns} turns, all independent, "
        f"{asked.latency_s:g} s latency,"
        f" {asked.in_flight} in flight, {asked.workers} workers: ideal {asked.ideal_s:.1f} s",
        flush=True,
    )
    per_s = programs_per_s(_candidates(size.n_sampled, pandas=False), on(_zygote()))
    with tempfile.TemporaryDirectory() as folder:
        data, plugin = (
            write_tasks(Path(folder) / "data", size.n_tasks, size.n_turns),
            write_plugin(Path(folder) / "plugin"),
        )
        said = Path(folder) / "answer"
        said.write_text(answer(MARK))
        print(
            f"  {'':26} {'share':>6} {'window s':>9} {'wall s':>7} {'CPU s':>7} {'peak MB':>8}",
            flush=True,
        )
        for sandbox in ("instant", "zygote"):
            with latency_server(asked.latency_s, 0.0, 2 * LIMIT_S, answer=said) as server:
                ran = _night(
                    asked,
                    data,
                    Path(tempfile.mkdtemp(dir=folder)),
                    plugin,
                    server.base_url,
                    sandbox,
                )
                _report(asked, sandbox, ran, server.stats(), per_s)


def _night(
    asked: Asked, data: Path, home: Path, plugin: Path, base_url: str, sandbox: str
) -> Watched:
    command = [
        sys.executable,
        "-m",
        "tests.bench.one_night",
        "--benchmark",
        f"convcode.static[{SETTING.name}]",
    ]
    command += [
        "--data",
        str(data),
        "--dataset-version",
        "bigcodebench",
        "--sandbox",
        sandbox,
        "--base-url",
        base_url,
    ]
    command += [
        "--in-flight",
        str(asked.in_flight),
        "--workers",
        str(asked.workers),
        "--began",
        str(time.monotonic()),
    ]
    return watch(command, environment({"PARLEY_HOME": str(home)}, plugin), LIMIT_S)


def _report(asked: Asked, sandbox: str, ran: Watched, stats: dict[str, Any], per_s: float) -> None:
    n, night = asked.size.n_requests, json.loads(ran.out.splitlines()[-1])
    share = asked.ideal_s / stats["window_s"]
    name = "without programs" if sandbox == "instant" else "with programs (zygote)"
    print(
        f"  {name:26} {share:6.2f} {stats['window_s']:9.1f} {ran.wall_s:7.1f} "
        f"{ran.cpu_s:7.1f} {ran.peak_mb:8.0f}"
        f"   aim {AIM:.2f}: {'reached' if share >= AIM else 'NOT reached'}",
        flush=True,
    )
    if (stats["requests"], stats["repeated"]) != (n, 0):
        print(
            f"    {stats['requests']} requests for {n} turns, {stats['repeated']} of them repeated"
        )
    if night["status"] != "finished" or night["owed"]:
        print(f"    the night is {night['status']}: {night['reason']}")
    stages = {stage["stage"]: stage for stage in night["stages"]}
    print("    " + ", ".join(f"{name} {stage['wall_s']:.1f} s" for name, stage in stages.items()))
    if sandbox == "instant":
        return
    both_s = stats["window_s"] + stages["execute"]["wall_s"]
    floor_s = max(asked.ideal_s, n / per_s)
    print(
        f"    programs decided while answers were still asked for: {night['programs_ahead']} of {n}"
    )
    print(
        f"    this machine alone with these programs does {per_s:.0f} a second: {n} take it "
        f"{n / per_s:.1f} s"
    )
    print(
        f"    from first request to last verdict {both_s:.1f} s; the larger of ideal and "
        f"programs alone is {floor_s:.1f} s,"
    )
    print(
        (
            f"    {floor_s / both_s:.2f} of it; one after the other they would be "
            f"{asked.ideal_s + n / per_s:.1f} s"
        ),
        flush=True,
    )


def live_night(asked: Asked) -> None:
    """Programs a second of a live night that solves nothing: on the zygote, and in a fresh process
    each.
    """
    size = asked.size
    half = size.n_sampled // 2
    candidates = [*_candidates(half, pandas=False), *_candidates(half, pandas=True)]
    zygote = programs_per_s(candidates, on(_zygote()))
    fresh = programs_per_s(candidates[:: max(1, len(candidates) // 60)], _fresh)
    n = size.n_requests
    print(
        f"\ntests of a live night: {size.n_tasks} tasks x {size.n_turns} turns, unsolved at "
        "every turn, five tests each, half of"
        f" the programs with numpy and pandas\n  zygote {zygote:.1f} runs/s ({n} in "
        f"{n / zygote / 60:.1f} min), a fresh process"
        f" each {fresh:.1f} runs/s ({n / fresh / 60:.1f} min): {zygote / fresh:.1f} times as many;"
        f" {AT_ONCE} at once, from a sample of {len(candidates)} distinct programs",
        flush=True,
    )


Candidate = tuple[str, str]
"""Code and tests."""


def _candidates(n: int, *, pandas: bool) -> list[Candidate]:
    return [(unsolved(number, pandas=pandas), tests_of(number)) for number in range(n)]


def _zygote() -> Sandbox:
    """As a night of the benchmark has it."""
    sandbox = registry.load_with("zygote", BENCHMARK.programs.preload)
    sandbox.check()
    return sandbox


def on(sandbox: Sandbox) -> Callable[[Candidate], None]:
    """Decides a candidate as the product does."""

    def run(candidate: Candidate) -> None:
        found = run_program(sandbox, "unittest", candidate[0], (candidate[1],), LIMITS)
        outcomes = [case.outcome for case in found.cases]
        if (
            found.module_error is not None
            or outcomes.count(Outcome.PASSED) != 2
            or found.outcome is not Outcome.FAILED
        ):
            raise RuntimeError(f"{sandbox.name}: {found.outcome}, {outcomes}: {found.detail}")

    return run


def _fresh(candidate: Candidate) -> None:
    """The same in a Python of its own, nothing around it."""
    program = f"{candidate[0]}\n{candidate[1]}\nunittest.main(argv=['tests'])\n"
    done = subprocess.run(
        [interpreter(), "-c", program],
        env=clean_environment("/tmp", 3),
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    if b"FAILED (failures=3)" not in done.stderr:
        raise RuntimeError(f"fresh process: {done.stderr.decode(errors='replace')[-800:]}")


def programs_per_s(candidates: list[Candidate], run: Callable[[Candidate], None]) -> float:
    """Runs a second, as many at once as a night on this machine has; the first ones, which start
    zygotes, do not count.
    """
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(run, candidates[:: max(1, len(candidates) // 4)]))
        started = time.perf_counter()
        list(threads.map(run, candidates))
        return len(candidates) / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--small", action="store_true", help="a tenth of it; start and end weigh more"
    )
    parser.add_argument("--only", choices=("replay", "live"), help="half of it")
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--latency-s", type=float, default=1.0)
    given = parser.parse_args()
    asked = Asked(SMALL if given.small else WHOLE, given.in_flight, given.workers, given.latency_s)
    if given.only != "live":
        replay(asked)
    if given.only != "replay":
        live_night(asked)


if __name__ == "__main__":
    main()
