"""Function-level tests: the candidate's code, a newline, its tests, as one program (CodeIF-Bench's way of judging).

A pass is believed only if the trusted runner inside the sandbox reports it with this run's secret; the program's exit code and
output decide nothing.
"""

from pydantic import Field

from sandbox.interface import Sandbox
from sandbox.judged_run import LONGEST_DETAIL, Unit, harmless, run_units
from schemas.base import Frozen
from schemas.run import Limits
from schemas.verdict import FailureReason, Outcome

__all__ = ["LONGEST_DETAIL", "RUNNER_VERSION", "FunctionVerdict", "harmless", "run_function_tests"]

RUNNER_VERSION = 2
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
    text = "\n".join(tests) + "\n"
    (found,) = run_units(sandbox, code, (Unit("tests", "statements", text, text),), limits)
    return FunctionVerdict(outcome=found.outcome, detail=found.detail, reason=found.reason, duration_s=found.duration_s)
