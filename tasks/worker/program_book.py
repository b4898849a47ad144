"""Programs that a run's dialogues or a build want: each is run once, on a thread beside the event loop, and its verdict kept."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Self

from sandbox.interface import Sandbox
from sandbox.judging.judged_run import LONGEST_CASE_DETAIL
from sandbox.judging.runners.run import run_tests
from schemas.problem import SuiteKind
from schemas.run import Limits, RunSpec
from schemas.verdict import Outcome, ProgramVerdict, verdict_id
from tasks.benchmarks.registry import BENCHMARKS
from tasks.dialogue.programs import Place, WantedProgram
from tasks.storage.paid_calls import CallsInFlight
from tasks.worker.jobs import RunContext
from tasks.worker.placed_programs import Resources, program_in_place

LASTING = (Outcome.PASSED, Outcome.FAILED)
"""Outcomes that hold wherever the same program runs again. A timeout depends on the machine, too."""
FindVerdict = Callable[[str, Callable[[], Awaitable[ProgramVerdict]]], Awaitable[ProgramVerdict]]
"""Returns the verdict of an id: a kept one, or what running the program brings."""


class ReportCache:
    """Lasting reports of programs that this process has run. The least used go first.

    Args:
        characters: bound of the text in all reports together, and about their size in memory.
    """

    def __init__(self, characters: int = 32_000_000) -> None:
        self._room = characters
        self._kept: OrderedDict[str, ProgramVerdict] = OrderedDict()

    def finder(self) -> FindVerdict:
        """Return what finds reports for one book. Another book's end cancels none of its programs."""
        in_flight = CallsInFlight[ProgramVerdict]()

        async def find(key: str, run: Callable[[], Awaitable[ProgramVerdict]]) -> ProgramVerdict:
            async def run_and_keep() -> ProgramVerdict:
                report = await run()
                self.keep(report)
                return report

            return self.get(key) or await in_flight.find(key, run_and_keep)

        return find

    def get(self, verdict_id: str) -> ProgramVerdict | None:
        """Return the report kept under this id; None without one."""
        if verdict_id in self._kept:
            self._kept.move_to_end(verdict_id)
        return self._kept.get(verdict_id)

    def keep(self, report: ProgramVerdict) -> None:
        """Keep a lasting report; drop the least used ones where room is short."""
        if report.outcome not in LASTING or report.verdict_id in self._kept:
            return
        self._kept[report.verdict_id] = report
        self._room -= _size(report)
        while self._room < 0:
            self._room += _size(self._kept.popitem(last=False)[1])


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
    """What all programs of a run or a build share."""

    runner_version: int
    environment: str
    """The sandbox's fingerprint."""
    limits: Limits
    resources: Resources

    @classmethod
    def of_run(cls, context: RunContext) -> Self:
        """Return those of a run."""
        return cls(
            context.spec.runner_version, context.environment, context.spec.limits, context.resources
        )

    def limits_of(self, program: WantedProgram) -> Limits:
        """Return the bounds that a program runs under."""
        return (program.place and program.place.limits) or self.limits

    def id_of(self, program: WantedProgram) -> str:
        """Return the verdict id of a program: the same within a run's dialogues and after them."""
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
            placing=place.placing if place else None,
        )


class ProgramBook:
    """Finds the verdicts of programs. For one event loop.

    Args:
        find_verdict: looks a verdict up before its program runs, and keeps it.
        threads: programs that run at the same time.
        slots: bounds them beyond that, whichever stage wants them.
        count: is called after each program that was run, not for known ones.
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
        """Return the tests' report on the code. A program in flight or known is not run again.

        Args:
            begun: is called where the program is run for this call.

        Raises:
            SandboxUnavailable: the sandbox could not run it.
            Unscorable: the tree that it runs in is not there.
            ValueError: the tests hold no test.
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
        placed = program_in_place(
            facts.resources, program.kind, program.code, program.tests, program.place
        )
        with self._slots:
            return run_tests(self._sandbox, placed, facts.limits_of(program), LONGEST_CASE_DETAIL)

    def close(self) -> None:
        """Begin no more programs; running ones come to their end."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass
class BookReader:
    """The `ProgramRunner` of an episode or a build; `n_run` counts the programs that were run for it."""

    open_book: Callable[[], ProgramBook]
    """The run's or build's; where no program is wanted, none is opened."""
    before: Callable[[], None] = lambda: None
    """Is called before each program."""
    n_run: int = field(default=0, init=False)

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None = None
    ) -> ProgramVerdict:
        """See `ProgramBook.find`."""
        self.before()
        return await self.open_book().find(WantedProgram(kind, code, tests, place), self._count)

    def _count(self) -> None:
        self.n_run += 1


def sandbox_of(spec: RunSpec) -> Sandbox:
    """Return the run's sandbox. Where it can, it has the imports of the benchmark's programs loaded."""
    return BENCHMARKS.load(spec.benchmark).programs.load_sandbox(spec.sandbox, spec.dataset_version)
