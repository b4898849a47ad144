"""Runs of programs, and the book of programs, in which each runs only once."""

import asyncio
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sandbox.interface import ImageSandbox, Sandbox
from sandbox.judging.judged_run import LONGEST_CASE_DETAIL
from sandbox.judging.patched_repository import OpenPlace, PatchProgram, run_patch
from sandbox.judging.runners.programs import TestProgram, program_of
from sandbox.judging.runners.run import run_answer, run_tests
from sandbox.workspace.interface import image_of
from sandbox.workspace.workspace import Workspace, open_workspace, workspaces_of
from schemas.dialog import MISSING
from schemas.errors import SandboxUnavailable, Unscorable
from schemas.problem import SuiteKind
from schemas.run import Limits, RunSpec
from schemas.verdict import FailureReason, Outcome, ProgramVerdict, verdict_id
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.registry import BENCHMARKS
from tasks.dialogue.tools import NO_TREE, Place, Tree, WantedProgram
from tasks.storage.files.environments import Environments
from tasks.storage.files.source_trees import TreeDigests, tree_files
from tasks.storage.files.trees import TreeStore
from tasks.storage.paid_calls import CallsInFlight
from tasks.worker.images import held_repository
from tasks.worker.jobs import RunContext

LASTING = (Outcome.PASSED, Outcome.FAILED)
"""Lasting outcomes: another run of the program would have them, too.

A timeout is not lasting, because it depends on the machine.
"""
Resources = Sequence[tuple[str, str]]
FindVerdict = Callable[[str, Callable[[], Awaitable[ProgramVerdict]]], Awaitable[ProgramVerdict]]
"""Function (verdict id, call) that returns the stored verdict, or the result of the call."""


class ReportCache:
    """Cache of reports with lasting outcomes. The least recently used ones are dropped first.

    Args:
        characters: Maximum total length of the reports' texts, roughly their size in memory.
    """

    def __init__(self, characters: int = 32_000_000) -> None:
        self._room = characters
        self._reports: OrderedDict[str, ProgramVerdict] = OrderedDict()

    def finder(self) -> FindVerdict:
        """Return the lookup for one `ProgramBook`.

        Each lookup tracks its calls in flight, so closing another book cancels none of them.
        """
        in_flight = CallsInFlight[ProgramVerdict]()

        async def find(key: str, run: Callable[[], Awaitable[ProgramVerdict]]) -> ProgramVerdict:
            async def run_and_keep() -> ProgramVerdict:
                report = await run()
                self.keep(report)
                return report

            return self.get(key) or await in_flight.find(key, run_and_keep)

        return find

    def get(self, verdict_id: str) -> ProgramVerdict | None:
        """Return the report with this id, or None."""
        if verdict_id in self._reports:
            self._reports.move_to_end(verdict_id)
        return self._reports.get(verdict_id)

    def keep(self, report: ProgramVerdict) -> None:
        """Store a lasting report. If the cache is full, drop the least recently used reports."""
        if report.outcome not in LASTING or report.verdict_id in self._reports:
            return
        self._reports[report.verdict_id] = report
        self._room -= _size(report)
        while self._room < 0:
            self._room += _size(self._reports.popitem(last=False)[1])


def _size(report: ProgramVerdict) -> int:
    texts = (
        report.detail,
        report.compile_error,
        report.module_error,
        *(case.detail for case in report.cases),
    )
    return 500 + sum(len(text) for text in texts if text is not None) + 200 * len(report.cases)


@dataclass(frozen=True)
class ProgramFacts:
    """Facts that all programs of a run or a build share."""

    runner_version: int
    environment: str
    """Fingerprint of the sandbox, part of every verdict's id."""
    limits: Limits
    resources: Resources

    @classmethod
    def of_run(cls, context: RunContext) -> Self:
        """Return the facts that a run's programs share."""
        return cls(
            context.spec.runner_version, context.environment, context.spec.limits, context.resources
        )

    def limits_of(self, program: WantedProgram) -> Limits:
        """Return the limits of a program."""
        return program.limits or (program.place and program.place.limits) or self.limits

    def id_of(self, program: WantedProgram, cases: tuple[str, ...] = ()) -> str:
        """Return the verdict id of these cases of a program, or of all cases."""
        place = program.place
        return verdict_id(
            code=program.code,
            tests=program.tests,
            runner_version=self.runner_version,
            environment=self.environment,
            limits=self.limits_of(program),
            kind=program.kind,
            entry_point=place.entry_point if place else "",
            tree=place.tree.name if place else "",
            cases=cases,
            placing=place.placing if place else None,
            image=program.image,
        )


class ProgramBook:
    """Runner of programs that runs no program twice. For one event loop.

    Args:
        find_verdict: Looks up the verdict before the program runs, and stores a new verdict.
        threads: Maximum number of parallel programs.
        slots: Further limit, shared by all stages of a run in this process. None: no further limit.
        count: Called after each program that was run.
    """

    def __init__(
        self,
        facts: ProgramFacts,
        sandbox: Sandbox,
        find_verdict: FindVerdict,
        threads: int,
        slots: threading.Semaphore | None = None,
        count: Callable[[], None] = lambda: None,
    ) -> None:
        self._facts, self._sandbox, self._find_verdict, self._count = (
            facts,
            sandbox,
            find_verdict,
            count,
        )
        self._slots: AbstractContextManager[object] = slots or nullcontext()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="parley-program")

    async def find(
        self, program: WantedProgram, begun: Callable[[], None] = lambda: None
    ) -> ProgramVerdict:
        """Return the tests' report on the code. A program in flight or stored does not run again.

        Args:
            begun: Called if this call starts the program.

        Raises:
            SandboxUnavailable: The sandbox could not run the program.
            Unscorable: The source tree that the program needs is missing.
            ValueError: The tests contain no test.
        """
        key = self._facts.id_of(program)

        async def run() -> ProgramVerdict:
            begun()
            report = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._run, program
            )
            self._count()
            return report.model_copy(update={"verdict_id": key})

        return await self._find_verdict(key, run)

    def _run(self, program: WantedProgram) -> ProgramVerdict:
        facts = self._facts
        placed = program_in_place(facts.resources, program)
        with self._slots:
            return run_tests(self._sandbox, placed, facts.limits_of(program), LONGEST_CASE_DETAIL)

    def close(self) -> None:
        """Begin no more programs. Running programs finish."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass
class BookReader:
    """`ProgramRunner` of an episode or a build. `n_run` counts the programs that it started."""

    open_book: Callable[[], ProgramBook]
    """Returns the `ProgramBook` of the run or build."""
    before: Callable[[], None] = lambda: None
    """Function that is called before each program runs."""
    n_run: int = field(default=0, init=False)

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None = None
    ) -> ProgramVerdict:
        """Return the tests' report on the code. See `ProgramBook.find`."""
        self.before()
        return await self.open_book().find(WantedProgram(kind, code, tests, place), self._count)

    def _count(self) -> None:
        self.n_run += 1


Result = ProgramVerdict | SandboxUnavailable | Unscorable
"""Report of a program, or the reason why there is no report."""


def run_programs(
    context: RunContext, sandbox: Sandbox, tests: Sequence[TestRun], limits: Limits
) -> tuple[list[Result], int]:
    """Run the programs of one answer. Return their results, and the number of sandbox runs."""
    results: dict[int, Result] = {}
    by_image: dict[str, dict[int, TestProgram]] = defaultdict(dict)
    n_runs = 0
    for n, test in enumerate(tests):
        try:
            place = _sandbox_of_image(sandbox, test.image)
            if test.repository is None:
                by_image[test.image][n] = program_in_place(context.resources, test.program)
                continue
            n_runs += 1
            trees, open_place = patch_places(context, place, limits)
            with held_repository(context, test.repository) as snapshot:
                patch = PatchProgram(test.code or "", snapshot)
                results[n] = run_patch(open_place, trees, patch, limits)
        except (SandboxUnavailable, Unscorable) as fault:
            results[n] = fault
    for image, programs in by_image.items():
        place = _sandbox_of_image(sandbox, image)
        reports, n = run_answer(place, tuple(programs.values()), limits, LONGEST_CASE_DETAIL)
        results |= dict(zip(programs, reports, strict=True))
        n_runs += n
    return [results[n] for n in range(len(tests))], n_runs


def _sandbox_of_image(sandbox: Sandbox, image: str) -> Sandbox:
    place = sandbox_in(sandbox, image)
    if place is None:
        raise Unscorable(f"its tests run in the image {image}, which needs the sandbox docker")
    return place


def sandbox_in(sandbox: Sandbox, image: str) -> Sandbox | None:
    """Return the sandbox that runs programs in this image, or None if it runs no images.

    An empty image means the sandbox's own environment.
    """
    return (
        sandbox
        if not image
        else sandbox.with_image(image)
        if isinstance(sandbox, ImageSandbox)
        else None
    )


def patch_places(
    context: RunContext, sandbox: Sandbox, limits: Limits
) -> tuple[TreeStore, OpenPlace]:
    """Return the store of source trees, and a function that opens a workspace in one of them."""
    trees = TreeStore(context.place.trees)
    environments = Environments(context.place.environments)

    def open_place(tree: str, environment: str) -> AbstractContextManager[Workspace]:
        packages = "" if image_of(environment) else environment
        shown = environments.shown(packages) if packages else {}
        return open_workspace(
            workspaces_of(sandbox), trees, tree, limits=limits, with_state=False, shown=shown
        )

    return trees, open_place


def program_in_place(resources: Resources, program: WantedProgram) -> TestProgram:
    """Return the program of an answer, with the files of its tree.

    Raises:
        SandboxUnavailable: The tree existed at planning and is now missing or changed.
        Unscorable: The tree never existed, or lacks the file that the answer replaces.
    """
    kind, code, tests, place = program.kind, program.code, program.tests, program.place
    if place is None:
        return program_of(kind, code, tests)
    files = _files(resources, place.tree, place.placing.environment if place.placing else "")
    try:
        return program_of(kind, code, tests, place.entry_point, files, place.placing)
    except LookupError as missing:
        message = (
            f"the tree {place.tree.folder} is another one than the dataset's: {missing.args[0]}"
        )
        raise Unscorable(message, FailureReason.SOURCE_MISSING) from None


def _files(resources: Resources, tree: Tree, packages: str) -> Mapping[str, bytes]:
    if tree is NO_TREE:
        return {}
    root = dict(resources).get(tree.resource) if tree.resource else ""
    if root is None:
        raise _absent(tree, f"the run names no resource {tree.resource!r} for {tree.folder}")
    folder = Path(root) / tree.folder
    if not folder.is_dir():
        raise _absent(tree, f"the tree that its tests run in is not there: {folder}")
    try:
        return tree_files(folder, TreeDigests(tree.digest, tree.packages), packages)
    except OSError as fault:
        raise SandboxUnavailable(
            f"the tree {folder} cannot be read: {fault}. Repair it, then type the command again"
        ) from fault


def _absent(tree: Tree, message: str) -> SandboxUnavailable | Unscorable:
    """Return the error for a missing tree.

    A tree that existed at planning is missing through a fault of the machine, not of the answer.
    """
    if tree.digest == MISSING:
        return Unscorable(message, FailureReason.SOURCE_MISSING)
    return SandboxUnavailable(
        f"{message}. It was there when the run was planned: bring it back, "
        "and begin the command again"
    )


def sandbox_of(spec: RunSpec) -> Sandbox:
    """Return the run's sandbox. If it can, it preloads the imports of the benchmark's programs."""
    return BENCHMARKS.load(spec.benchmark).programs.load_sandbox(spec.sandbox, spec.dataset_version)
