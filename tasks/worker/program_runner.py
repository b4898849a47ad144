"""Runs programs for a dialogue while it goes on, in a worker process: on threads, beside its event loop."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sandbox import registry as sandboxes
from sandbox.interface import Sandbox
from sandbox.judging.judged_run import LONGEST_CASE_DETAIL
from sandbox.judging.runners.run import run_tests
from schemas.problem import SuiteKind
from schemas.run import RunSpec
from schemas.verdict import Outcome, ProgramVerdict, verdict_id
from tasks.benchmarks import registry
from tasks.dialogue.programs import Place
from tasks.worker.jobs import RunContext
from tasks.worker.placed_programs import program_in_place


class ReportCache:
    """Reports of programs that this process has run, without timeouts, which depend on the machine, too. The least used go first.

    Args:
        characters: bound of the text in all reports together, and about their size in memory.
    """

    def __init__(self, characters: int = 32_000_000) -> None:
        self._room = characters
        self._kept: OrderedDict[str, ProgramVerdict] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, verdict_id: str) -> ProgramVerdict | None:
        """The report kept under this id; None without one."""
        with self._lock:
            if verdict_id in self._kept:
                self._kept.move_to_end(verdict_id)
            return self._kept.get(verdict_id)

    def keep(self, report: ProgramVerdict) -> None:
        """Keep a report that passed or failed; drop the least used ones where room is short."""
        if report.outcome not in (Outcome.PASSED, Outcome.FAILED):
            return
        with self._lock:
            if report.verdict_id in self._kept:
                return
            self._kept[report.verdict_id] = report
            self._room -= _size(report)
            while self._room < 0:
                self._room += _size(self._kept.popitem(last=False)[1])


def _size(report: ProgramVerdict) -> int:
    texts = (report.detail, report.compile_error, report.module_error, *(case.detail for case in report.cases))
    return 500 + sum(len(text) for text in texts if text is not None) + 200 * len(report.cases)


class RunPrograms:
    """Runs the programs that a run's dialogues want, in one worker process. Used on the process's loop only.

    Args:
        slots: bounds the run's programs in this process, whichever stage wants them.
        cache: the process's reports.
        count: is called with 1 for each program that was run, not for known ones.
    """

    def __init__(
        self, context: RunContext, slots: threading.Semaphore, cache: ReportCache, count: Callable[[int], None] = lambda _: None
    ) -> None:
        self._spec, self._environment, self._resources = context.spec, context.environment, context.resources
        self._sandbox = sandbox_of(context.spec)
        self._slots, self._cache, self._count = slots, cache, count
        self._threads = ThreadPoolExecutor(context.programs, thread_name_prefix="parley-program")
        self._under_way: dict[str, asyncio.Future[ProgramVerdict]] = {}

    async def find(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None = None
    ) -> tuple[ProgramVerdict, bool]:
        """The tests' report on the code, and whether it was run for this. A program under way or known is not run again.

        Raises:
            SandboxUnavailable: the sandbox could not run it.
            Unscorable: the tree that it runs in is not there.
            ValueError: the tests hold no test.
        """
        key = program_id(self._spec, self._environment, kind, code, tests, place)
        known = self._cache.get(key)
        if known is not None:
            return known, False
        is_first = key not in self._under_way
        if is_first:
            begun = asyncio.get_running_loop().run_in_executor(self._threads, self._run, key, kind, code, tests, place)
            begun.add_done_callback(lambda _: self._under_way.pop(key, None))
            self._under_way[key] = begun
        return await asyncio.shield(self._under_way[key]), is_first

    def _run(self, key: str, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None) -> ProgramVerdict:
        program, limits = (
            program_in_place(self._resources, kind, code, tests, place),
            (place and place.limits) or self._spec.limits,
        )
        with self._slots:
            found = run_tests(self._sandbox, program, limits, LONGEST_CASE_DETAIL)
        report = found.model_copy(update={"verdict_id": key})
        self._cache.keep(report)
        self._count(1)
        return report

    def close(self) -> None:
        """Begin no more programs; running ones come to their end."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass
class EpisodePrograms:
    """The `ProgramRunner` of one episode; `n_run` counts the programs run for it."""

    of_run: Callable[[], RunPrograms]
    """The run's; a run without programs has none, and never asks."""
    before: Callable[[], None] = lambda: None
    """Is called before each program."""
    n_run: int = 0

    async def run(self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None = None) -> ProgramVerdict:
        """See `RunPrograms.find`."""
        self.before()
        report, was_run = await self.of_run().find(kind, code, tests, place)
        self.n_run += was_run
        return report


def sandbox_of(spec: RunSpec) -> Sandbox:
    """The run's sandbox. Where it can, it has the imports of the benchmark's programs loaded."""
    return sandboxes.load_with(spec.sandbox, registry.load(spec.benchmark).programs.preload)


def program_id(
    spec: RunSpec, environment: str, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None = None
) -> str:
    """The verdict id of a program of a run: the same within its dialogues and after them."""
    return verdict_id(
        code=code,
        tests=tests,
        runner_version=spec.runner_version,
        environment=environment,
        limits=(place and place.limits) or spec.limits,
        kind=kind,
        entry_point=place.entry_point if place else "",
        tree=place.tree.name if place else "",
        placing=place.placing if place else None,
    )
