"""Book of programs: the place where their verdicts are looked up, run and stored."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self, TypeGuard

from sandbox.host.resource_limits import low_priority
from sandbox.interface import ImageSandbox, Sandbox
from sandbox.judging.judged_run import LONGEST_CASE_DETAIL
from sandbox.judging.runners.programs import TestProgram, program_of
from sandbox.judging.runners.run import run_answer
from schemas.dialog import MISSING
from schemas.errors import SandboxUnavailable, Unscorable
from schemas.problem import RepoSnapshot, SuiteKind
from schemas.run import Limits
from schemas.verdict import FailureReason, Outcome, ProgramVerdict, verdict_id
from tasks.dialogue.tools import NO_TREE, Place, Tree, WantedProgram
from tasks.storage.files.source_trees import TreeDigests, tree_files
from tasks.storage.paid_calls import CallsInFlight
from tasks.worker.jobs import RunContext

LASTING = (Outcome.PASSED, Outcome.FAILED)
"""Lasting outcomes: another run of the program would have them, too.

A timeout is not lasting, because it depends on the machine.
"""
_UNHURRIED_S = 1.0
"""A program that failed within this many seconds did not fail because it waited for a processor."""
Resources = Sequence[tuple[str, str]]
Result = ProgramVerdict | SandboxUnavailable | Unscorable
"""Report of a program, or the reason why there is no report."""
RunPatch = Callable[[Sandbox, str, RepoSnapshot, Limits], ProgramVerdict]
"""Function (sandbox, patch, repository, limits) that runs the repository's tests on the patch."""


class VerdictStore(Protocol):
    """Store of reports by verdict id. For one event loop."""

    def get(self, verdict_id: str) -> ProgramVerdict | None:
        """Return the stored report, or None."""
        ...

    def put(self, report: ProgramVerdict) -> None:
        """Store a report."""
        ...


class ReportCache:
    """Cache of reports. The least recently used ones are dropped first. See `VerdictStore`.

    Args:
        characters: Maximum total length of the reports' texts, roughly their size in memory.
    """

    def __init__(self, characters: int = 32_000_000) -> None:
        self._room = characters
        self._reports: OrderedDict[str, ProgramVerdict] = OrderedDict()

    def get(self, verdict_id: str) -> ProgramVerdict | None:
        """Return the report with this id, or None."""
        if verdict_id in self._reports:
            self._reports.move_to_end(verdict_id)
        return self._reports.get(verdict_id)

    def put(self, report: ProgramVerdict) -> None:
        """Store a report. If the cache is full, drop the least recently used reports."""
        if report.verdict_id in self._reports:
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


@dataclass(frozen=True)
class Found:
    """Results of programs that a `ProgramBook` looked up or ran."""

    results: Mapping[str, Result]
    """Result of each program, by verdict id."""
    ran: Collection[str]
    """Verdict ids of the programs that this call ran."""
    n_runs: int
    """Number of sandbox runs of this call."""
    is_unsure: bool
    """True if a program may have failed because it ran at low priority."""


class ProgramBook:
    """Place where verdicts of programs are looked up, run and stored. For one event loop.

    Equal programs run once. Lasting reports are stored, but no report of a program that may have
    failed because of low priority.

    Args:
        threads: Maximum number of parallel programs.
        run_patch: Runs the tests of patches; None if no program is a patch.
    """

    def __init__(
        self,
        facts: ProgramFacts,
        sandbox: Sandbox,
        store: VerdictStore,
        threads: int,
        run_patch: RunPatch | None = None,
    ) -> None:
        self._facts, self._sandbox, self._store = facts, sandbox, store
        self._run_patch = run_patch
        self._in_flight = CallsInFlight[Result](), CallsInFlight[Result]()
        """Programs in flight at normal and at low priority."""
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="parley-program")

    async def find(
        self, program: WantedProgram, on_run: Callable[[], None] = lambda: None
    ) -> ProgramVerdict:
        """Return the tests' report on the code.

        Args:
            on_run: Called if this call ran the program.

        Raises:
            SandboxUnavailable: The sandbox could not run the program.
            Unscorable: The source tree that the program needs is missing.
            ValueError: The tests contain no test.
        """
        key = self._facts.id_of(program)
        found = await self.find_all({key: program}, self._facts.limits_of(program))
        if found.ran:
            on_run()
        result = found.results[key]
        if isinstance(result, Exception):
            raise result
        return result

    async def find_all(
        self, programs: Mapping[str, WantedProgram], limits: Limits, *, is_low: bool = False
    ) -> Found:
        """Return the results of one answer's programs. Several programs may share a sandbox run.

        Args:
            programs: Programs by verdict id.
            limits: Limits of each program.
            is_low: Run the programs at low priority.

        Raises:
            ValueError: The tests of a program contain no test.
        """
        stored = {key: report for key in programs if (report := self._store.get(key)) is not None}
        ran: Sequence[str] = ()
        n_runs = 0

        async def run(keys: Sequence[str]) -> Mapping[str, Result]:
            nonlocal ran, n_runs
            ran, wanted = keys, {key: programs[key] for key in keys}
            results, n_runs = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._run, wanted, limits, is_low
            )
            for report in results.values():
                if _is_lasting(report, is_low):
                    self._store.put(report)
            return results

        missing = [key for key in programs if key not in stored]
        results = await self._in_flight[is_low].find_all(missing, run) if missing else {}
        is_unsure = is_low and any(map(_is_slow_failure, results.values()))
        return Found({**stored, **results}, ran, n_runs, is_unsure)

    def _run(
        self, programs: Mapping[str, WantedProgram], limits: Limits, is_low: bool
    ) -> tuple[dict[str, Result], int]:
        """Run programs. Return their results, and the number of sandbox runs."""
        results: dict[str, Result] = {}
        by_image: dict[str, dict[str, TestProgram]] = defaultdict(dict)
        n_runs = 0
        with low_priority(is_low):
            for key, program in programs.items():
                try:
                    place = _sandbox_of_image(self._sandbox, program.image)
                    if program.repository is not None and self._run_patch is not None:
                        n_runs += 1
                        results[key] = self._run_patch(
                            place, program.code, program.repository, limits
                        )
                    else:
                        placed = program_in_place(self._facts.resources, program)
                        by_image[program.image][key] = placed
                except (SandboxUnavailable, Unscorable) as fault:
                    results[key] = fault
            for image, placed_programs in by_image.items():
                place = _sandbox_of_image(self._sandbox, image)
                reports, n = run_answer(
                    place, tuple(placed_programs.values()), limits, LONGEST_CASE_DETAIL
                )
                results |= zip(placed_programs, reports, strict=True)
                n_runs += n
        return {key: _named(result, key) for key, result in results.items()}, n_runs

    async def drain(self) -> None:
        """Wait for programs in flight. See `CallsInFlight.drain`."""
        for in_flight in self._in_flight:
            await in_flight.drain()

    def close(self) -> None:
        """Begin no more programs. Running programs finish."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _is_lasting(result: Result, is_low: bool) -> TypeGuard[ProgramVerdict]:
    return (
        isinstance(result, ProgramVerdict)
        and result.outcome in LASTING
        and not (is_low and _is_slow_failure(result))
    )


def _is_slow_failure(result: Result) -> bool:
    return isinstance(result, ProgramVerdict) and (
        result.outcome is Outcome.TIMEOUT
        or (result.outcome is Outcome.FAILED and result.duration_s > _UNHURRIED_S)
    )


def _named(result: Result, verdict_id: str) -> Result:
    return (
        result.model_copy(update={"verdict_id": verdict_id})
        if isinstance(result, ProgramVerdict)
        else result
    )


@dataclass
class BookReader:
    """`ProgramRunner` of an episode or a build. `n_run` counts the programs that it ran."""

    open_book: Callable[[], ProgramBook]
    """Returns the `ProgramBook` of the run or build."""
    before: Callable[[], None] = lambda: None
    """Function that is called before each program."""
    count: Callable[[], None] = lambda: None
    """Function that is called after each program that was run."""
    n_run: int = field(default=0, init=False)

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None = None
    ) -> ProgramVerdict:
        """Return the tests' report on the code. See `ProgramBook.find`."""
        self.before()
        return await self.open_book().find(WantedProgram(kind, code, tests, place), self._on_run)

    def _on_run(self) -> None:
        self.n_run += 1
        self.count()


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
