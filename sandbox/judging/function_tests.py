"""A candidate's program and its tests as dialogues and runs ask for them (`run_program`).

A pass is believed only if the trusted runner inside the sandbox reports it with this run's secret; the program's exit code and
output decide nothing.
"""

from sandbox.interface import Sandbox
from sandbox.judging.judged_run import LONGEST_CASE_DETAIL, Unit, run_units
from sandbox.judging.runners.programs import UnittestProgram
from sandbox.judging.runners.unittest_tests import run_unittest
from schemas.problem import SuiteKind
from schemas.run import Limits
from schemas.verdict import ProgramVerdict

RUNNER_VERSION = 5
"""Raise it when the same program could get another verdict: it is part of `verdict_id`."""


def run_function_tests(sandbox: Sandbox, code: str, tests: tuple[str, ...], limits: Limits) -> ProgramVerdict:
    """Run `code`, a newline, then `tests`, as `__main__` in a fresh working directory (CodeIF-Bench's way of judging).

    Args:
        tests: Python statements; joined by newlines.
        limits: CPU time makes a timeout; time on the clock should leave room for a loaded machine.

    Returns:
        passed, failed or timeout, without cases. Code that does not compile, ends early, or meddles with its tests has failed.

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run a program; says nothing about the candidate.
    """
    text = "\n".join(tests) + "\n"
    ran = run_units(sandbox, code, (Unit("tests", "statements", text, text),), limits)
    return ran.model_copy(update={"detail": ran.cases[0].detail, "cases": ()})


def run_program(sandbox: Sandbox, kind: SuiteKind, code: str, tests: tuple[str, ...], limits: Limits) -> ProgramVerdict:
    """Run `code` with its tests once, for a verdict and for a feedback text.

    Args:
        tests: statements, joined by newlines; of `unittest` the text of a module, in one piece or several.

    Returns:
        For statements the verdict of `run_function_tests`, for `unittest` that of `run_unittest`.

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run a program; says nothing about the candidate.
        ValueError: the text of a unittest module does not parse, or has no test method.
    """
    if kind == "unittest":
        return run_unittest(sandbox, UnittestProgram(code=code, test="\n".join(tests)), limits, LONGEST_CASE_DETAIL)
    return run_function_tests(sandbox, code, tests, limits)
