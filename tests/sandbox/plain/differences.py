"""Compare Parley's verdict on a program with plain Python's outcome.

A difference counts unless it is one of `StatedException`, the only ways in which a verdict departs
from plain Python on purpose.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from sandbox.host.slots import slot_count
from sandbox.interface import Sandbox
from sandbox.judging.runners.programs import (
    AssertProgram,
    CheckProgram,
    StatementProgram,
    TestProgram,
)
from sandbox.judging.runners.run import run_tests
from schemas.run import Limits
from schemas.verdict import Outcome, ProgramVerdict
from tests.sandbox.plain.oracle import PlainOutcome, ends_early, plain_outcome

REPEATS = 2
"""How often both are run again before a difference counts: programs may draw at random, and a
loaded machine is slow.
"""


class StatedException(StrEnum):
    """A departure from plain Python that is meant.

    In each, plain Python passes the program and Parley fails it.

    The first four are recognised here. Only a program made for the others meets them, so the honest
    programs name them by hand.
    """

    EARLY_EXIT = (
        "exit accounting: the program ended with exit status 0 before its tests were through"
    )
    LEFT_PROCESS = "exit accounting: a process outlives the program"
    SKIPPED = "a skipped test is no pass"
    UNSTABLE = "plain Python does not give the same outcome each time"
    CLOSED_CHANNEL = (
        "the program closed descriptors that it had not opened, and with them the channel to the "
        "runner"
    )
    RECURSION_LIMIT = (
        "sys.getrecursionlimit() reads 1005: five calls of the runner lie below the program's first"
    )
    FIRST_THREE = (
        "the first three methods of a unittest text run before all others, which partial "
        "coverage needs"
    )
    TESTS_FILE = (
        "the tests' text is in no file: warnings and frames name it <tests>, with lines of its own"
    )


@dataclass(frozen=True)
class Comparison:
    """One program's two outcomes."""

    name: str
    program: TestProgram
    ours: ProgramVerdict
    plain: PlainOutcome
    exception: StatedException | None = None

    @property
    def is_equal(self) -> bool:
        """Whether both give the same outcome, of the program and of each test that has one of its
        own.
        """
        return (
            not self.differing_tests
            and (self.ours.outcome is Outcome.PASSED) == self.plain.has_passed
        )

    @property
    def differing_tests(self) -> tuple[str, ...]:
        """Tests of one outcome here and another there.

        A test that plain Python does not name has failed there.
        """
        if not self.plain.cases:
            return ()
        return tuple(
            case.name
            for case in self.ours.cases
            if (case.outcome is Outcome.PASSED) != self.plain.cases.get(case.name, False)
        )

    def __str__(self) -> str:
        ours, plain = str(self.ours.outcome), "passed" if self.plain.has_passed else "failed"
        tests = f"\n    tests: {', '.join(self.differing_tests)}" if self.differing_tests else ""
        reason = f"\n    stated exception: {self.exception}" if self.exception else ""
        detail = self.ours.detail if self.plain.has_passed else self.plain.detail
        last_lines = " / ".join(detail.strip().splitlines()[-3:])[-300:]
        return f"{self.name}: plain Python {plain}, Parley {ours}{tests}{reason}\n    {last_lines}"


def compare(
    sandbox: Sandbox,
    name: str,
    program: TestProgram,
    limits: Limits,
    outcome_of: Callable[[TestProgram, Limits], PlainOutcome] = plain_outcome,
) -> Comparison:
    """Run a program both ways, and again where the outcomes differ.

    Args:
        outcome_of: plain Python's first outcome; another function may look up a stored one.

    Raises:
        SandboxUnavailable: the sandbox could not run it.
        Unscorable: the sandbox has no toolchain for it.
    """
    found = Comparison(
        name, program, run_tests(sandbox, program, limits), outcome_of(program, limits)
    )
    for _ in range(REPEATS):
        if found.is_equal:
            return found
        exception = _stated_exception(found, limits)
        if exception is not None:
            return Comparison(name, program, found.ours, found.plain, exception)
        again = Comparison(
            name, program, run_tests(sandbox, program, limits), plain_outcome(program, limits)
        )
        if (again.plain.has_passed, again.plain.cases) != (
            found.plain.has_passed,
            found.plain.cases,
        ):
            return Comparison(name, program, again.ours, again.plain, StatedException.UNSTABLE)
        found = again
    return found


def compare_all(
    sandbox: Sandbox,
    programs: Iterable[tuple[str, TestProgram]],
    limits: Limits,
    outcome_of: Callable[[TestProgram, Limits], PlainOutcome] = plain_outcome,
) -> Iterator[Comparison]:
    """Compare programs, as many at once as there are slots, in their order."""
    with ThreadPoolExecutor(slot_count()) as threads:
        yield from threads.map(lambda item: compare(sandbox, *item, limits, outcome_of), programs)


def _stated_exception(found: Comparison, limits: Limits) -> StatedException | None:
    if (
        not found.plain.has_passed
        or found.ours.outcome is Outcome.PASSED
        or found.ours.reason is not None
    ):
        return None
    if found.plain.has_left_processes:
        return StatedException.LEFT_PROCESS
    if found.plain.has_skipped:
        return StatedException.SKIPPED
    is_script = isinstance(found.program, StatementProgram | CheckProgram | AssertProgram)
    return StatedException.EARLY_EXIT if is_script and ends_early(found.program, limits) else None
