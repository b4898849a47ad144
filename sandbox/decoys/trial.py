"""Run of variants of a program's tests, several in one sandbox run if possible."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sandbox.interface import Sandbox
from sandbox.judging.joint_run import run_variants
from sandbox.judging.judged_run import LONGEST_DETAIL
from sandbox.judging.runners.programs import (
    AssertProgram,
    CheckProgram,
    PythonProgram,
    StatementProgram,
    UnittestProgram,
)
from sandbox.judging.runners.run import python_tests, run_tests
from schemas.audit import Audited, AuditOutcome
from schemas.run import Limits
from schemas.verdict import Outcome, ProgramVerdict

_MOST_ALONE = 4
"""Maximum number of variants that run alone because the joint run did not decide them."""
Outcomes = Mapping[str, bool]
"""Map from the name of a unit (a part of the tests with its own verdict) to True if it passed. A
program without cases has one unit with an empty name.
"""


@dataclass
class Cost:
    """Number of an audit's sandbox runs, and their wall-clock seconds."""

    n_runs: int = 0
    duration_s: float = 0.0

    def add(self, ran: ProgramVerdict) -> None:
        """Add one run."""
        self.n_runs += 1
        self.duration_s += ran.duration_s

    def audited(
        self,
        decoy: str,
        n_decoys: int,
        detail: str = "",
        *,
        forged: Iterable[str] = (),
        suspected: Iterable[str] = (),
    ) -> Audited:
        """Return the result of an audit with these runs and seconds.

        It is `forged` if a unit's pass is forged, else `suspected` if one is, else `earned`.

        Args:
            decoy: text of the altered check that passed, or of one that failed.
            n_decoys: number of altered checks that were run.
            detail: evidence that the decoy is sound, or what it lacks.
            forged: names of units with forged passes; an empty name for a program without cases.
            suspected: names of units with suspected passes.
        """
        forged, suspected = tuple(forged), tuple(suspected)
        found = AuditOutcome.SUSPECTED if suspected else AuditOutcome.EARNED
        return Audited(
            outcome=AuditOutcome.FORGED if forged else found,
            decoy=decoy,
            is_sound=bool(forged),
            detail=detail,
            forged_cases=tuple(filter(None, forged)),
            suspected_cases=tuple(filter(None, suspected)),
            n_decoys=n_decoys,
            n_runs=self.n_runs,
            duration_s=self.duration_s,
        )


@dataclass
class Trial:
    """Runner of variants in one sandbox, under one program's limits."""

    sandbox: Sandbox
    limits: Limits
    cost: Cost = field(default_factory=Cost)

    def together(self, variants: Sequence[PythonProgram]) -> list[Outcomes | None]:
        """Run the code once, and the tests of each variant from the state that the code left.

        Variants that this joint run does not decide run alone, up to a fixed number.
        """
        outcomes_by_variant: list[Outcomes | None] = [None] * len(variants)
        if self.sandbox.isolated:
            tests = [python_tests(variant, LONGEST_DETAIL) for variant in variants]
            ran, outcomes = run_variants(self.sandbox, variants[0].code, tests, self.limits)
            self.cost.add(ran)
            names = [unit_names(variant) for variant in variants]
            outcomes_by_variant = [
                None if outcome is None else _named(name, outcome)
                for name, outcome in zip(names, outcomes, strict=True)
            ]
        for n in [n for n, outcome in enumerate(outcomes_by_variant) if outcome is None][
            :_MOST_ALONE
        ]:
            outcomes_by_variant[n] = self.alone(variants[n])
        return outcomes_by_variant

    def alone(self, variant: PythonProgram) -> Outcomes:
        """Run a variant in its own fresh process."""
        verdict = run_tests(self.sandbox, variant, self.limits)
        self.cost.add(verdict)
        if isinstance(variant, StatementProgram):
            return {"": verdict.outcome is Outcome.PASSED}
        return {case.name: case.outcome is Outcome.PASSED for case in verdict.cases}

    def detail(self, variant: PythonProgram, unit: str) -> str:
        """Run a variant in a fresh process, and return the reason why a unit failed."""
        verdict = run_tests(self.sandbox, variant, self.limits)
        self.cost.add(verdict)
        return next((case.detail for case in verdict.cases if case.name == unit), verdict.detail)


def unit_names(program: PythonProgram) -> tuple[str, ...]:
    """Return the names of a program's cases in its verdict, in the order in which they run."""
    if isinstance(program, StatementProgram):
        return ("",)
    names = tuple(unit.name for unit in python_tests(program, LONGEST_DETAIL).units)
    return names[1:] if isinstance(program, UnittestProgram) else names


def _named(names: Sequence[str], outcomes: Sequence[Outcome]) -> Outcomes:
    """Return a map from the name of each unit to its outcome.

    The first unit of a unittest module is the module itself, which has no name.
    """
    passed = (
        [outcome is Outcome.PASSED for outcome in outcomes][len(outcomes) - len(names) :]
        if outcomes
        else []
    )
    return dict(zip(names, passed, strict=False)) | dict.fromkeys(names[len(passed) :], False)


def texts_of(program: PythonProgram) -> tuple[str, ...]:
    """Return the texts of a program's tests. In an AssertProgram each text is a unit."""
    match program:
        case StatementProgram():
            return ("\n".join(program.tests),)
        case AssertProgram():
            return program.tests
        case CheckProgram() | UnittestProgram():
            return (program.test,)


def with_texts(program: PythonProgram, texts: Sequence[str]) -> PythonProgram:
    """Return the program with other texts of tests."""
    match program:
        case StatementProgram() | AssertProgram():
            return program.model_copy(update={"tests": tuple(texts)})
        case CheckProgram() | UnittestProgram():
            return program.model_copy(update={"test": texts[0]})
