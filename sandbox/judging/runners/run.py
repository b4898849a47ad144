"""Entry point of the runners, which run programs with their tests and return a verdict for each."""

from collections.abc import Sequence

from sandbox.interface import Sandbox
from sandbox.judging.joint_run import run_together
from sandbox.judging.judged_run import LONGEST_DETAIL, PythonTests, run_units
from sandbox.judging.runners.compiled_tests import run_java, run_java_together, run_javascript
from sandbox.judging.runners.programs import (
    AssertProgram,
    CheckProgram,
    JavaProgram,
    JavaScriptProgram,
    PythonProgram,
    RepositoryProgram,
    StatementProgram,
    TestProgram,
    UnittestProgram,
)
from sandbox.judging.runners.python_tests import (
    assert_tests,
    check_tests,
    statement_tests,
    unittest_tests,
)
from sandbox.judging.runners.repository_tests import run_repository
from schemas.errors import SandboxUnavailable, Unscorable
from schemas.run import Limits
from schemas.verdict import ProgramVerdict


def run_tests(
    sandbox: Sandbox, program: TestProgram, limits: Limits, longest: int = LONGEST_DETAIL
) -> ProgramVerdict:
    """Run a program's tests.

    Args:
        sandbox: sandbox that runs the program.
        program: program with its tests.
        limits: limits of the whole program. Java and JavaScript get more address space than
            `memory_mb` (see `schemas.run.RuntimeLimits`).
        longest: maximum number of characters of a unittest method's detail.

    Returns:
        A verdict with a case for each test, in the program's order; without cases if the tests pass
        or fail together.

    Raises:
        SandboxUnavailable: the sandbox could not run the program. This says nothing about the
            candidate.
        Unscorable: the sandbox has no toolchain for the program.
        ValueError: the tests contain no test.
    """
    match program:
        case RepositoryProgram():
            return run_repository(sandbox, program, limits)
        case JavaProgram():
            return run_java(sandbox, program, limits)
        case JavaScriptProgram():
            return run_javascript(sandbox, program, limits)
        case _:
            return run_units(sandbox, program.code, python_tests(program, longest), limits)


def run_answer(
    sandbox: Sandbox, programs: Sequence[TestProgram], limits: Limits, longest: int = LONGEST_DETAIL
) -> tuple[tuple[ProgramVerdict | SandboxUnavailable | Unscorable, ...], int]:
    """Run all programs of one answer, several in one run if possible.

    Programs that did not pass in the joint run may run again alone.

    Returns:
        The verdict of each program, or the error because of which it has none; and the number of
        sandbox runs.

    Raises:
        ValueError: the tests contain no test.
    """
    results: dict[int, ProgramVerdict | SandboxUnavailable | Unscorable] = {}
    n_runs = 0
    for group in _groups(programs) if sandbox.isolated else ():
        n_runs += 1
        try:
            verdicts = _run_group(sandbox, list(group.values()), limits, longest)
        # The error occurs again for each program when it runs alone.
        except (SandboxUnavailable, Unscorable):
            continue
        results |= {
            n: verdict for n, verdict in zip(group, verdicts, strict=True) if verdict is not None
        }
    for n, program in enumerate(programs):
        if n not in results:
            n_runs += 1
            try:
                results[n] = run_tests(sandbox, program, limits, longest)
            except (SandboxUnavailable, Unscorable) as fault:
                results[n] = fault
    return tuple(results[n] for n in range(len(programs))), n_runs


def _run_group(
    sandbox: Sandbox, programs: Sequence[PythonProgram | JavaProgram], limits: Limits, longest: int
) -> Sequence[ProgramVerdict | None]:
    java = [program for program in programs if isinstance(program, JavaProgram)]
    if java:
        return run_java_together(sandbox, java, limits)
    python = [program for program in programs if isinstance(program, PythonProgram)]
    return run_together(
        sandbox, python[0].code, [python_tests(program, longest) for program in python], limits
    )


def _groups(programs: Sequence[TestProgram]) -> list[dict[int, PythonProgram | JavaProgram]]:
    """Return groups of two or more programs that have equal code and run it in the same way.

    A group maps the index of a program to the program.
    """
    groups: dict[tuple[str, str], dict[int, PythonProgram | JavaProgram]] = {}
    for n, program in enumerate(programs):
        if isinstance(program, JavaProgram):
            groups.setdefault(("java", f"{program.prompt}\0{program.completion}"), {})[n] = program
        elif isinstance(program, PythonProgram):
            kind = "unittest" if isinstance(program, UnittestProgram) else "python"
            groups.setdefault((kind, program.code), {})[n] = program
    return [group for group in groups.values() if len(group) > 1]


def python_tests(program: PythonProgram, longest: int) -> PythonTests:
    """Return a program's tests in the form that the runner expects."""
    match program:
        case StatementProgram():
            return statement_tests(program.tests)
        case AssertProgram():
            return assert_tests(program.tests)
        case CheckProgram():
            return check_tests(program.test, program.entry_point)
        case UnittestProgram():
            return unittest_tests(program.test, longest)
