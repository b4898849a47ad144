"""Entry point of the runners, which run programs with their tests and return a verdict for each.

A pass is believed only if the trusted runner inside the sandbox reports it with this run's secret.
The program's exit code and output decide nothing. pytest is the exception: it runs in the same
process as the candidate's code, so nothing runs if the candidate wrote a file that could control
pytest, and a node that pytest does not report has failed.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath

from sandbox.interface import Sandbox
from sandbox.judging.joint_run import run_together
from sandbox.judging.judged_run import (
    LONGEST_DETAIL,
    PythonTests,
    Records,
    harmless,
    of_cases,
    run_job,
    run_units,
)
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
from schemas.errors import SandboxUnavailable, Unscorable
from schemas.run import Limits
from schemas.verdict import CaseVerdict, FailureReason, Outcome, ProgramVerdict


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


_REFUSED = (
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "sitecustomize.py",
    "usercustomize.py",
    "pytest.py",
    "_pytest.py",
)
_PASSED = ("PASSED", "XFAIL")


def run_repository(sandbox: Sandbox, program: RepositoryProgram, limits: Limits) -> ProgramVerdict:
    """Run the files of the nodes with pytest, without the environment's plugins.

    Returns:
        A verdict with a case for each node id. A node passes if pytest reports PASSED or XFAIL. It
        fails otherwise, also if it is not in the report.

    Raises:
        SandboxUnavailable: the sandbox could not run pytest.
        ValueError: there is no node id, or a file name leaves the folder.
    """
    if not program.node_ids:
        raise ValueError("a repository without node ids has no verdict: pass at least one")
    refusal = steering_file(program)
    if refusal is not None:
        detail = f"tampering: the candidate wrote {refusal}, which decides what pytest does"
        cases = tuple(
            CaseVerdict(name=name, outcome=Outcome.FAILED, detail=detail)
            for name in program.node_ids
        )
        return of_cases(
            ProgramVerdict(outcome=Outcome.FAILED, reason=FailureReason.TAMPERING), cases
        )
    tests = sorted({node.partition("::")[0] for node in program.node_ids})
    texts = {
        "files": tests,
        "nodes": program.node_ids,
        "arguments": program.arguments,
        "paths": program.folders,
    }
    texts |= {"environment": (program.environment,), "warnings": ()}
    job = {"kind": "pytest", **{name: "\n".join(lines) for name, lines in texts.items()}}
    ran, records = run_job(sandbox, job, (), limits, dict(program.files))
    return of_cases(ran, tuple(_of_node(name, ran, records) for name in program.node_ids))


def steering_file(program: RepositoryProgram) -> str | None:
    """Return the first of the candidate's files that could control pytest, or None.

    Such files are settings, start-up files and the tests themselves.
    """
    tests = {node.partition("::")[0] for node in program.node_ids}
    for name in program.by_candidate:
        plain = PurePosixPath(name)
        if plain.name in _REFUSED or plain.suffix == ".pth" or str(plain) in tests:
            return name
    return None


def _of_node(name: str, ran: ProgramVerdict, records: Records) -> CaseVerdict:
    word, detail = records.get(f"node {name}", ("", ""))
    is_sound = ran.outcome is Outcome.PASSED
    pytest_says = "" if word in ("", "PASSED") else f"pytest says {word}"
    if is_sound and word in _PASSED:
        return CaseVerdict(name=name, outcome=Outcome.PASSED, detail=pytest_says)
    outcome = Outcome.FAILED if is_sound or word else ran.outcome
    text = "\n".join(filter(None, (pytest_says, detail or ran.detail))) or "pytest did not run it"
    return CaseVerdict(name=name, outcome=outcome, detail=harmless(text))


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
