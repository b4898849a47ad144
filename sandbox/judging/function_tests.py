"""Function-level tests: the candidate's code, a newline, its tests, as one program (CodeIF-Bench's way of judging).

A pass is believed only if the trusted runner inside the sandbox reports it with this run's secret; the program's exit code and
output decide nothing.
"""

from pydantic import Field

from sandbox.interface import Sandbox
from sandbox.judging.judged_run import LONGEST_CASE_DETAIL, LONGEST_DETAIL, Judged, Unit, harmless, judge_units
from sandbox.judging.runners.programs import UnittestProgram
from sandbox.judging.runners.unittest_tests import judge_unittest
from schemas.base import Frozen
from schemas.problem import SuiteKind
from schemas.run import Limits
from schemas.verdict import CaseReport, FailureReason, Outcome, ProgramVerdict

__all__ = ["LONGEST_DETAIL", "RUNNER_VERSION", "FunctionVerdict", "harmless", "run_function_tests", "run_program"]

RUNNER_VERSION = 4
"""Raise it when the same program could get another verdict: it is part of `verdict_id`."""


class FunctionVerdict(Frozen):
    """What the tests decided. Never `infra`: that is raised."""

    outcome: Outcome
    detail: str = ""
    """The end of the traceback, or why it does not pass; empty for a pass."""
    reason: FailureReason | None = None
    """Why it failed, where that is to be counted: tampering with its tests."""
    duration_s: float = Field(ge=0)
    """On the clock, the sandbox's set-up included."""


def run_function_tests(sandbox: Sandbox, code: str, tests: tuple[str, ...], limits: Limits) -> FunctionVerdict:
    """Run `code`, then `tests`, as `__main__` in a fresh working directory.

    Args:
        tests: Python statements; joined by newlines.
        limits: CPU time makes a timeout; time on the clock should leave room for a loaded machine.

    Returns:
        passed, failed or timeout. Code that does not compile, ends early, or meddles with its tests has failed.

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run a program; says nothing about the candidate.
    """
    (found,) = _judged_statements(sandbox, code, tests, limits).cases
    return FunctionVerdict(outcome=found.outcome, detail=found.detail, reason=found.reason, duration_s=found.duration_s)


def run_program(sandbox: Sandbox, kind: SuiteKind, code: str, tests: tuple[str, ...], limits: Limits) -> ProgramVerdict:
    """Run `code` with its tests once, for a verdict and for a feedback text.

    Args:
        tests: statements, joined by newlines; of `unittest` the text of a module, in one piece or several.

    Returns:
        For statements the verdict of `run_function_tests`. For `unittest`, passed where every test method passed, timeout where
        any was kept from its end by a limit.

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run a program; says nothing about the candidate.
        ValueError: the text of a unittest module does not parse, or has no test method.
    """
    if kind == "unittest":
        return _unittest_verdict(sandbox, UnittestProgram(code=code, test="\n".join(tests)), limits)
    judged = _judged_statements(sandbox, code, tests, limits)
    (found,) = judged.cases
    return ProgramVerdict(
        outcome=found.outcome,
        detail=found.detail,
        reason=found.reason,
        duration_s=found.duration_s,
        compile_error=judged.compile_error,
    )


def _judged_statements(sandbox: Sandbox, code: str, tests: tuple[str, ...], limits: Limits) -> Judged:
    text = "\n".join(tests) + "\n"
    return judge_units(sandbox, code, (Unit("tests", "statements", text, text),), limits)


def _unittest_verdict(sandbox: Sandbox, program: UnittestProgram, limits: Limits) -> ProgramVerdict:
    judged = judge_unittest(sandbox, program, limits, LONGEST_CASE_DETAIL)
    stopped = judged.module.outcome is not Outcome.PASSED
    missed = [case for case in judged.cases if case.outcome is not Outcome.PASSED]
    worst = next((case for case in missed if case.outcome is Outcome.TIMEOUT), missed[0] if missed else None)
    return ProgramVerdict(
        outcome=Outcome.PASSED if worst is None else worst.outcome,
        detail="" if worst is None else harmless(worst.detail if stopped else f"{worst.name}\n{worst.detail}"),
        reason=judged.module.reason,
        duration_s=judged.module.duration_s,
        compile_error=judged.compile_error,
        module_error=judged.module.detail if stopped else None,
        cases=tuple(CaseReport(name=case.name, outcome=case.outcome, detail=case.detail) for case in judged.cases),
    )
