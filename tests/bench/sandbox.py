"""`make bench-sandbox`: what a run costs on each backend, beside ways that people use elsewhere,
and two whole corpora.

Side by side in one run, so that ratios hold whatever the machine. A run is a function with one
test, decided to `passed`: by `run_function_tests` on a backend; by exit status in a fresh Python or
`docker exec`; by a plain list in an unisolated fork.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

from sandbox import registry
from sandbox.backends.docker.daemon import client
from sandbox.host.python_environment import clean_environment
from sandbox.interface import Sandbox
from sandbox.judging.runners.run import run_function_tests
from sandbox.registry import SANDBOXES
from schemas.errors import ParleyError, SandboxUnavailable
from schemas.run import Limits
from schemas.verdict import Outcome, TestVerdict
from tests.bench import corpora
from tests.bench.pace import AT_ONCE, Speed, speed
from tests.bench.processes import ROOT, environment
from tests.sandbox.backends.daemon import started_daemon, why_not
from tests.sandbox.backends.daemon_image import import_image

ROUNDS = 3
LIMITS = Limits(cpu_s=10, wall_s=60)
IMAGE_VARIABLE = "PARLEY_DOCKER_IMAGE"
FORK, FRESH, ZYGOTE = "unisolated fork, as human-eval", "fresh python", "zygote"
AIMS = (("trivial", FORK, 0.8), ("numpy+pandas", FORK, 1.5), ("numpy+pandas", FRESH, 20.0))
"""How many times as many runs a second the zygote should do, on which program, as whom."""
CORPUS_AIMS_S = {"HumanEval": 5.0, "MBPP": 20.0}


@dataclass(frozen=True)
class Load:
    """A candidate and its test."""

    name: str
    code: str
    test: str
    preload: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        return f"{self.code}\n{self.test}\n"


LOADS = (
    Load("trivial", "def f(x):\n    return x + 1\n", "assert f(1) == 2"),
    Load(
        "numpy+pandas",
        (
            "import numpy as np\nimport pandas as pd\n\n\ndef f(n):\n    return "
            "int(pd.Series(np.arange(n)).sum())\n"
        ),
        "assert f(4) == 6",
        ("numpy", "pandas"),
    ),
)


def on(sandbox: Sandbox, load: Load) -> Callable[[], None]:
    """One run on a backend."""

    def run() -> None:
        verdict = run_function_tests(sandbox, load.code, (load.test,), LIMITS)
        if verdict.outcome is not Outcome.PASSED:
            raise RuntimeError(f"{sandbox.name}: {load.name} {verdict.outcome}: {verdict.detail}")

    return run


def fresh(load: Load) -> Callable[[], None]:
    """One run in a Python of its own, nothing around it."""
    command, variables = [sys.executable, "-c", load.program], clean_environment("/tmp", 3)
    return lambda: _succeed(command, variables)


def _succeed(command: list[str], variables: dict[str, str] | None = None) -> None:
    subprocess.run(
        command, env=variables, check=True, stdin=subprocess.DEVNULL, capture_output=True
    )


def fork_speed(load: Load, seconds: float) -> Speed:
    """Of `unisolated_fork`, in a process that has nothing loaded but what the program needs."""
    command = [
        sys.executable,
        "-m",
        "tests.bench.unisolated_fork",
        "--seconds",
        str(seconds),
        "--preload",
        *load.preload,
    ]
    done = subprocess.run(
        [*command, "--program", load.program],
        cwd=ROOT,
        env=environment({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}),
        check=True,
        stdout=subprocess.PIPE,
    )
    return Speed(**json.loads(done.stdout))


@contextmanager
def daemon() -> Iterator[None]:
    """For the time of the block a Docker daemon and an image without libraries, where none is named
    and one can be started.
    """
    reason = "an image is named" if os.environ.get(IMAGE_VARIABLE) else why_not()
    with ExitStack() as stack:
        if reason is None:
            address = stack.enter_context(started_daemon())
            stack.enter_context(
                patch.dict(
                    os.environ,
                    DOCKER_HOST=address,
                    **{IMAGE_VARIABLE: import_image(client(address, 2).api)},
                )
            )
        yield


@contextmanager
def container() -> Iterator[str | None]:
    """A warm container of the image that Parley uses, without network; None where no daemon or
    image is there.
    """
    image = os.environ.get(IMAGE_VARIABLE)
    command = [
        "docker",
        "run",
        "--detach",
        "--rm",
        "--network",
        "none",
        image or "",
        "sleep",
        "3600",
    ]
    try:
        name = (
            subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
            if image
            else None
        )
    except (OSError, subprocess.CalledProcessError):
        name = None
    try:
        yield name
    finally:
        if name is not None:
            subprocess.run(["docker", "kill", name], check=False, capture_output=True)


def contestants(
    load: Load, stack: ExitStack
) -> Iterator[tuple[str, Callable[[float], Speed] | str]]:
    """Each one's name with how its speed is measured for so many seconds, or with why it does not
    run here.
    """
    yield FRESH, partial(speed, fresh(load))
    yield FORK, partial(fork_speed, load)
    name = stack.enter_context(container())
    if name is None:
        yield "docker exec", f"no daemon, or no image in {IMAGE_VARIABLE}"
    else:
        command = ["docker", "exec", name, "python3", "-c", load.program]
        yield "docker exec", _unless_it_fails(partial(_succeed, command))
    for backend in (*(n for n in SANDBOXES.built_in if n != ZYGOTE), ZYGOTE):
        try:
            sandbox = registry.load(
                backend, **({"preload": load.preload} if backend == ZYGOTE else {})
            )
            sandbox.check()
        except ParleyError as error:
            yield backend, str(error)
        else:
            yield backend, _unless_it_fails(on(sandbox, load))


def _unless_it_fails(run: Callable[[], None]) -> Callable[[float], Speed] | str:
    """How its speed is measured, or why the program does not run there: an image may lack its
    libraries.
    """
    try:
        run()
    except (RuntimeError, subprocess.CalledProcessError) as error:
        return f"the program does not run in it: {' '.join(str(error).split())[-100:]}"
    return partial(speed, run)


def compare(load: Load, seconds: float) -> dict[str, Speed]:
    """One table.

    Everybody's turn comes several times, so that a load that comes and goes hits all.
    """
    print(
        (
            f"\n{load.name}: runs/s with {AT_ONCE} at once, and ms of one alone (medians of "
            f"{ROUNDS} rounds)"
        ),
        flush=True,
    )
    with ExitStack() as stack:
        measures: dict[str, Callable[[float], Speed]] = {}
        for name, measure in contestants(load, stack):
            if isinstance(measure, str):
                print(f"  {name:32} skipped: {measure[:150]}", flush=True)
            else:
                measures[name] = measure
        rounds = [
            {name: measure(seconds / ROUNDS) for name, measure in measures.items()}
            for _ in range(ROUNDS)
        ]
    found = {
        name: Speed(
            *(
                statistics.median(getattr(one[name], figure) for one in rounds)
                for figure in ("per_s", "alone_ms")
            )
        )
        for name in measures
    }
    for name, said in found.items():
        print(f"  {name:32} {said.per_s:8.1f} {said.alone_ms:9.2f} ms", flush=True)
    return found


def judge(found: dict[str, dict[str, Speed]]) -> None:
    """The zygote against everybody, and whether the aims are reached."""
    for load, speeds in found.items():
        for name, other in speeds.items():
            if ZYGOTE in speeds and name != ZYGOTE:
                ratio = speeds[ZYGOTE].per_s / other.per_s
                aims = [aim for wanted, rival, aim in AIMS if (wanted, rival) == (load, name)]
                said = "".join(
                    f"   aim {aim:g}: {'reached' if ratio >= aim else 'NOT reached'}"
                    for aim in aims
                )
                print(f"  {load}: zygote does {ratio:6.2f} x the runs of {name}{said}")


def whole_corpus(name: str, tasks: list[corpora.Reference], sandbox: Sandbox) -> None:
    """All references of a corpus, each decided and written as a verdict row."""
    from tasks.storage.parquet_store import Lake

    def decide(task: corpora.Reference) -> TestVerdict:
        said = run_function_tests(sandbox, task.code, task.tests, LIMITS)
        return TestVerdict(
            run_id="bench",
            benchmark=name.lower(),
            model="reference",
            episode_id=task.name,
            problem_id=task.name,
            sample=0,
            turn=1,
            instruction_id="tests",
            outcome=said.outcome,
            detail=said.detail,
            duration_s=said.duration_s,
            sandbox=sandbox.name,
        )

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as threads:
        run_function_tests(sandbox, "pass", ("pass",), LIMITS)
        started = time.perf_counter()
        rows = list(threads.map(decide, tasks))
        Lake(Path(folder)).write_part(
            "test_verdicts", rows, "all", benchmark=name.lower(), model="reference", run_id="bench"
        )
        took, passed = (
            time.perf_counter() - started,
            sum(row.outcome is Outcome.PASSED for row in rows),
        )
    aim = CORPUS_AIMS_S[name]
    verdict = "reached" if took <= aim else "NOT reached"
    print(
        (
            f"  {name}: {passed} of {len(rows)} references pass, {took:.2f} s on {sandbox.name}  "
            f" aim {aim:g} s: {verdict}"
        ),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds", type=float, default=9.0, help="of each measurement, its rounds together"
    )
    parser.add_argument("--only", choices=("speed", "corpora"), help="half of it")
    arguments = parser.parse_args()
    if arguments.only != "corpora":
        with daemon():
            found = {load.name: compare(load, arguments.seconds) for load in LOADS}
        print()
        judge(found)
    if arguments.only != "speed":
        print()
        try:
            for name, read in (("HumanEval", corpora.human_eval), ("MBPP", corpora.mbpp)):
                tasks = read()
                if tasks is None:
                    print(f"  {name}: skipped: its data are not beside the repository")
                else:
                    whole_corpus(name, tasks, registry.load(ZYGOTE))
        except SandboxUnavailable as error:
            print(f"  corpora: skipped: {error}")


if __name__ == "__main__":
    main()
