"""Runs variants of a program's tests, together where that can be, and says how each unit ended."""

from collections.abc import Mapping, Sequence
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
from schemas.audit import Audited
from schemas.run import Limits
from schemas.verdict import Outcome, ProgramVerdict

_MOST_ALONE = 4
"""Variants that run one by one where no joint run decides them."""
Outcomes = Mapping[str, bool]
"""Name of a unit -> whether it passed. A program without cases has one unit, without a name."""


@dataclass
class Cost:
    """Sandbox runs of an audit, and their seconds."""

    n_runs: int = 0
    duration_s: float = 0.0

    def add(self, ran: ProgramVerdict) -> None:
        """Count a run."""
        self.n_runs += 1
        self.duration_s += ran.duration_s

    def of(self, result: Audited) -> Audited:
        """Return the result with these figures."""
        return result.model_copy(update={"n_runs": self.n_runs, "duration_s": self.duration_s})


@dataclass
class Trial:
    """Runs variants in one sandbox under one program's limits."""

    sandbox: Sandbox
    limits: Limits
    cost: Cost = field(default_factory=Cost)

    def together(self, variants: Sequence[PythonProgram]) -> list[Outcomes | None]:
        """Run the code once and each variant's tests from there; alone, as far as that goes, what cannot be decided so."""
        found: list[Outcomes | None] = [None] * len(variants)
        if self.sandbox.isolated:
            tests = [python_tests(variant, LONGEST_DETAIL) for variant in variants]
            ran, outcomes = run_variants(self.sandbox, variants[0].code, tests, self.limits)
            self.cost.add(ran)
            names = [unit_names(variant) for variant in variants]
            found = [
                None if one is None else _named(name, one)
                for name, one in zip(names, outcomes, strict=True)
            ]
        for n in [n for n, one in enumerate(found) if one is None][:_MOST_ALONE]:
            found[n] = self.alone(variants[n])
        return found

    def alone(self, variant: PythonProgram) -> Outcomes:
        """Run a variant in a fresh process of its own."""
        verdict = run_tests(self.sandbox, variant, self.limits)
        self.cost.add(verdict)
        if isinstance(variant, StatementProgram):
            return {"": verdict.outcome is Outcome.PASSED}
        return {case.name: case.outcome is Outcome.PASSED for case in verdict.cases}

    def detail(self, variant: PythonProgram, unit: str) -> str:
        """Run a variant in a fresh process and return why a unit failed."""
        verdict = run_tests(self.sandbox, variant, self.limits)
        self.cost.add(verdict)
        return next((case.detail for case in verdict.cases if case.name == unit), verdict.detail)


def unit_names(program: PythonProgram) -> tuple[str, ...]:
    """Return the names under which a program's cases stand in its verdict, in the order in which they run."""
    if isinstance(program, StatementProgram):
        return ("",)
    names = tuple(unit.name for unit in python_tests(program, LONGEST_DETAIL).units)
    return names[1:] if isinstance(program, UnittestProgram) else names


def _named(names: Sequence[str], outcomes: Sequence[Outcome]) -> Outcomes:
    """Name the outcomes of the last units: a unittest module's first unit is the module itself."""
    passed = (
        [one is Outcome.PASSED for one in outcomes][len(outcomes) - len(names) :]
        if outcomes
        else []
    )
    return dict(zip(names, passed, strict=False)) | dict.fromkeys(names[len(passed) :], False)


def texts_of(program: PythonProgram) -> tuple[str, ...]:
    """Return the texts of a program's tests; each of `asserts` is a unit of its own."""
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
