"""The one way in: a program with its tests, and a verdict for each."""

from sandbox.interface import Sandbox
from sandbox.judging.runners.compiled_tests import run_java, run_javascript
from sandbox.judging.runners.programs import (
    AssertProgram,
    CheckProgram,
    JavaProgram,
    JavaScriptProgram,
    RepositoryProgram,
    TestProgram,
    UnittestProgram,
)
from sandbox.judging.runners.python_tests import run_asserts, run_check
from sandbox.judging.runners.repository_tests import run_repository
from sandbox.judging.runners.unittest_tests import run_unittest
from schemas.run import Limits
from schemas.verdict import ProgramVerdict


def run_tests(sandbox: Sandbox, program: TestProgram, limits: Limits) -> ProgramVerdict:
    """Run a program's tests.

    Args:
        limits: for the whole program. Java and JavaScript get more address space than `memory_mb` (see `RuntimeLimits`).

    Returns:
        With a case for each test, in the program's order.

    Raises:
        SandboxUnavailable: the sandbox or a toolchain is missing; says nothing about the candidate.
        ValueError: the tests hold no test.
    """
    match program:
        case AssertProgram():
            return run_asserts(sandbox, program, limits)
        case CheckProgram():
            return run_check(sandbox, program, limits)
        case UnittestProgram():
            return run_unittest(sandbox, program, limits)
        case RepositoryProgram():
            return run_repository(sandbox, program, limits)
        case JavaProgram():
            return run_java(sandbox, program, limits)
        case JavaScriptProgram():
            return run_javascript(sandbox, program, limits)
