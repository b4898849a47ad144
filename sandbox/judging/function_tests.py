"""Entry point for verdicts on functions: one program and its tests (`run_program`).

A pass is believed only if the trusted runner inside the sandbox reports it with this run's secret.
The program's exit code and output decide nothing.
"""

from sandbox.interface import Sandbox
from sandbox.judging.judged_run import LONGEST_CASE_DETAIL
from sandbox.judging.runners.programs import StatementProgram, program_of
from sandbox.judging.runners.run import run_tests
from schemas.problem import SuiteKind
from schemas.run import Limits
from schemas.verdict import ProgramVerdict

RUNNER_VERSION = 11
"""Version of the runner, a part of `verdict_id`. Raise it when the same program could get another
verdict."""


def run_function_tests(
    sandbox: Sandbox, code: str, tests: tuple[str, ...], limits: Limits
) -> ProgramVerdict:
    """Run `code`, a newline, then `tests`, as `__main__` in an empty working directory.

    CodeIF-Bench judges programs in this way.

    Args:
        sandbox: sandbox that runs the program.
        code: code of the candidate.
        tests: Python statements, joined by newlines.
        limits: limits of the program. If the program exceeds its CPU time, the outcome is timeout.
            The wall-clock limit should be wide enough for a machine under load.

    Returns:
        passed, failed or timeout, without cases. Code that does not compile or ends early has
        failed.

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run a program. This says nothing
            about the candidate.
    """
    return run_tests(sandbox, StatementProgram(code=code, tests=tests), limits)


def run_program(
    sandbox: Sandbox, kind: SuiteKind, code: str, tests: tuple[str, ...], limits: Limits
) -> ProgramVerdict:
    """Run `code` once with its tests. The verdict also serves as feedback for the model.

    Args:
        sandbox: sandbox that runs the program.
        kind: form of the tests.
        code: code of the candidate.
        tests: statements, joined by newlines. For `unittest`, the text of a module in one piece or
            several.
        limits: limits of the program.

    Returns:
        For statements the verdict of `run_function_tests`; for `unittest` a verdict with a case for
        each method (`unittest_tests`).

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run a program. This says nothing
            about the candidate.
        ValueError: the text of a unittest module does not parse, or has no test method.
    """
    return run_tests(sandbox, program_of(kind, code, tests), limits, LONGEST_CASE_DETAIL)
