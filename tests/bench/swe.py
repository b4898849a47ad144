"""`make bench-swe`: how long a workspace takes to open, what grading a repository's instance costs
beside its tests alone, how many seconds a grading takes where each slot of the host has one, and
which share of the ideal eight agents at once keep with a model that answers in a second.

Sphinx's instances where `PARLEY_SPHINX` names its history and the shared data lie beside, else the
bundled sample. The tests alone are `python -m pytest` on the same files, in a workspace that is
open already.
"""

import argparse
import asyncio
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from sandbox import registry
from sandbox.host.slots import slot_count
from sandbox.judging.patched_repository import PatchProgram, run_patch
from sandbox.workspace.interface import ENVIRONMENT_PLACE
from sandbox.workspace.workspace import Workspace, open_workspace, workspaces_of
from schemas.episode import StopReason
from schemas.errors import Unscorable
from schemas.problem import Problem, RepoSnapshot
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.dialogue_swebench import BENCHMARK
from tasks.benchmarks.dialogue_swebench.resources import resolve_resources
from tasks.benchmarks.dialogue_swebench.stage import stage
from tasks.storage.files.environments import Environments
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench.played import Play, Scripted, calls, workspaces_in

SHARED = Path(__file__).parents[3] / "shared" / "data"
MOST_RATIO, MOST_OPENING_S, LEAST_SHARE = 1.3, 1.0, 0.9
MOST_GRADING_S = 240 / 50
"""Of a grading on two cores: fifty of Sphinx in four minutes."""
EPISODES, WORKERS, STEPS, LATENCY_S = 8, 2, 20, 1.0
_INSTANCES = 6


class Bench:
    """One home, and the places that are opened from it."""

    def __init__(self, home: Home) -> None:
        self.trees, self._environments = TreeStore(home.trees), Environments(home.environments)
        self._sandbox = workspaces_of(registry.load("bubblewrap"))
        self.opening_s: list[float] = []

    @contextmanager
    def place(self, tree: str, environment: str) -> Iterator[Workspace]:
        """A fresh workspace; the time that it took to open is kept."""
        shown = self._environments.shown(environment) if environment else {}
        begun = time.monotonic()
        limits = BENCHMARK.programs.limits
        with ExitStack() as stack:
            opened = open_workspace(
                self._sandbox, self.trees, tree, limits=limits, with_state=False, shown=shown
            )
            workspace = stack.enter_context(opened)
            self.opening_s.append(time.monotonic() - begun)
            yield workspace

    def graded_s(self, patch: str, repository: RepoSnapshot) -> float:
        """Seconds to grade a patch, from nothing to the verdict."""
        begun = time.monotonic()
        run_patch(
            self.place, self.trees, PatchProgram(patch, repository), BENCHMARK.programs.limits
        )
        return time.monotonic() - begun

    def grading_s(self, problems: Sequence[Problem]) -> float:
        """Seconds of each grading, where gold and empty patches are graded as many at once as the
        host has slots.
        """
        wanted = [
            (patch, one.repo) for one in problems if one.repo for patch in (one.reference_code, "")
        ]
        begun = time.monotonic()
        with ThreadPoolExecutor(slot_count()) as threads:
            list(threads.map(self.graded_s, *zip(*wanted, strict=True)))
        return (time.monotonic() - begun) / len(wanted)

    def alone_s(self, repository: RepoSnapshot) -> float:
        """Seconds of the test command alone."""
        python = f"{ENVIRONMENT_PLACE}/bin/python" if repository.environment else "{python}"
        variables = [
            f"{name}={value}" for name, value in (*repository.variables, ("PYTHONPATH", "/testbed"))
        ]
        argv = (
            "/usr/bin/env",
            *variables,
            python,
            *repository.python_flags,
            "-m",
            "pytest",
            "-q",
            *repository.test_files,
        )
        with self.place(repository.tested_tree, repository.environment) as workspace:
            begun = time.monotonic()
            workspace.run(argv)
            return time.monotonic() - begun


def share_of_ideal(home: Home, staged: Staged, problem_id: str) -> float:
    """Ideal time of eight dialogues at once, the model's seconds alone, divided by the time that
    they took.

    They are dealt to two processes, as a night deals them to its workers.
    """
    context = multiprocessing.get_context("fork")
    begun = time.monotonic()
    workers = [
        context.Process(target=_play, args=(home, staged, problem_id, EPISODES // WORKERS))
        for _ in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise RuntimeError("a dialogue did not end as it should; its process has said why")
    return STEPS * LATENCY_S / (time.monotonic() - begun)


def _play(home: Home, staged: Staged, problem_id: str, n_episodes: int) -> None:
    commands = (
        "ls",
        "grep -rn import . | head -50",
        "git status --short | head",
        "echo x >> notes.txt; git diff | tail -3",
    )
    answers = [calls(("bash", {"command": commands[n % len(commands)]})) for n in range(STEPS - 1)]

    async def play() -> None:
        with closing(workspaces_in(home)) as shared:
            play = Play(
                home,
                staged,
                problem_id,
                agent="autonomous",
                setting="first_query",
                workspaces=shared,
            )
            models = [
                Scripted([*answers, calls(("finish", {}))], latency_s=LATENCY_S)
                for _ in range(n_episodes)
            ]
            endings = await asyncio.gather(*(play.played(model) for model in models))
        assert {ending.stop_reason for ending in endings} == {StopReason.FINISHED}

    asyncio.run(play())


def staged_in(home: Home) -> Staged:
    """Sphinx's, or the sample's."""
    repository = os.environ.get("PARLEY_SPHINX")
    data = SHARED / "swebench_verified_mini" / "data.csv"
    if repository and data.is_file():
        pins = SHARED / "swebench_sphinx" / "environments.json"
        return resolve_resources(
            stage(data, "x"), data, {"repos": Path(repository), "environments": pins}, home
        )
    sample = Path(str(BENCHMARK.data.sample))
    return resolve_resources(stage(sample, "sample"), sample, {}, home)


def main() -> int:
    """Print the figures; 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--instances", type=int, default=_INSTANCES, help="how many instances, from the first on"
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=2,
        help="the least of so many times counts: what else runs here only adds",
    )
    asked = parser.parse_args()
    with ExitStack() as stack:
        kept = os.environ.get("PARLEY_SPHINX_HOME")
        home = Home(Path(kept or stack.enter_context(tempfile.TemporaryDirectory())))
        bench, alone, graded, can_run = Bench(home), 0.0, 0.0, list[Problem]()
        staged = staged_in(home)
        wanted = [
            one for one in staged.problems if one.repo is not None and not one.repo.web_tests
        ][: asked.instances]
        for problem in wanted:
            assert problem.repo is not None
            try:
                bench.alone_s(
                    problem.repo
                )  # compiled modules and the disk's cache are there for both
                found = [
                    (
                        bench.alone_s(problem.repo),
                        bench.graded_s(problem.reference_code, problem.repo),
                    )
                    for _ in range(asked.repeats)
                ]
                times = min(alone_s for alone_s, _ in found), min(graded_s for _, graded_s in found)
            except Unscorable as missing:
                print(f"{problem.problem_id}: {missing}")
                continue
            alone, graded = alone + times[0], graded + times[1]
            can_run.append(problem)
            print(f"{problem.problem_id}: tests alone {times[0]:.2f} s, graded {times[1]:.2f} s")
        grading_s = bench.grading_s(can_run)
        share = share_of_ideal(home, staged, wanted[0].problem_id)
    slowest, ratio = max(bench.opening_s), graded / alone
    print(f"opened in {slowest:.2f} s at most (aim {MOST_OPENING_S:g})")
    print(f"graded in {ratio:.2f} of the time of the tests alone (aim {MOST_RATIO:g})")
    print(
        f"{2 * len(can_run)} gradings, {slot_count()} at once: {grading_s:.1f} s each (aim "
        f"{MOST_GRADING_S:g})"
    )
    print(
        f"{EPISODES} agents of {STEPS} steps at once: {share:.2f} of the ideal (aim "
        f"{LEAST_SHARE:g})"
    )
    print(f"load of the machine in the last minute: {os.getloadavg()[0]:.1f}")
    is_slow = slowest > MOST_OPENING_S or ratio > MOST_RATIO or grading_s > MOST_GRADING_S
    return int(is_slow or share < LEAST_SHARE)


if __name__ == "__main__":
    raise SystemExit(main())
