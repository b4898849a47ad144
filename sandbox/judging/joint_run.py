"""Joint run of all tests on one answer: the code runs once, and each test runs in a fork of it.

A pass counts as if the tests had run alone, and has the `verdict_id` of such a run, for these
reasons:

- The code can see nothing that it would not see alone: it runs before the tests' text arrives.
- The child is a copy of the process that has run the code, with its names, memory, random states,
  handlers and limits. If a fork would lose something (threads, children, timers), or children would
  share something (open files, memory), each program runs alone.
- Files are as the code left them. CPU time is the code's and the child's together; wall-clock time
  and memory are those of the whole run. Each bound is therefore reached no earlier than alone.
- A child seals its reports with its own key. A write into the runner's channel revokes every pass
  of the run.

A failure counts only if an exception of the test itself decided it, and if it is of a kind that
neither another instruction's tests nor lack of memory can cause: an assertion, a wrong type, name,
value or key, or a division by zero. After any other failure the program runs again alone, and the
second verdict counts: the joint run may cause a MemoryError, and an exception of a library may have
any cause. If the code does not compile, or raises an exception before the first test, no second run
is needed, because no test is involved.
"""

import builtins
import re
from collections.abc import Sequence

from sandbox.interface import Sandbox
from sandbox.judging.judged_run import PythonTests, Records, fields, job_of, of_records, run_job
from schemas.run import Limits
from schemas.verdict import FailureReason, Outcome, ProgramVerdict

_DECISIVE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    SyntaxError,
    TypeError,
    ValueError,
)
_DECISIVE_NAMES = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, _DECISIVE)
) | {"NotImplementedError"}
_EXCEPTION = re.compile(r"^[^\W\d][\w.]*(?=:|$)", re.MULTILINE)
"""Pattern of an exception's name in the last line of a traceback. If that line is part of a message
instead, the name is unknown, and the program runs alone.
"""


def run_together(
    sandbox: Sandbox, code: str, programs: Sequence[PythonTests], limits: Limits
) -> tuple[ProgramVerdict | None, ...]:
    """Run the code once, and each program's tests from the state that it left.

    Args:
        sandbox: sandbox that isolates. Its writable folders are restored before each child, which
            is not possible with the host's own files.
        code: code of the candidate.
        programs: tests with equal `main` and `kind`.
        limits: limits of each program. The wall-clock limit is that of the run.

    Returns:
        The verdict of each program, or None for a program that must run alone.

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run the program. This says nothing
            about the candidate.
    """
    job = job_of(code, programs[0]) | {"together": "1"}
    ran, records = run_job(sandbox, job, tuple(fields(*tests.packed) for tests in programs), limits)
    share = ran.model_copy(update={"duration_s": ran.duration_s / len(programs)})
    return tuple(_of_child(share, records, n, tests) for n, tests in enumerate(programs))


def _of_child(
    ran: ProgramVerdict, records: Records, n: int, tests: PythonTests
) -> ProgramVerdict | None:
    if ran.reason is FailureReason.TAMPERING:
        return None
    if "compile" in records or ("raised" in records and ran.outcome is Outcome.FAILED):
        return tests.finish(of_records(ran, records, tests))
    if records.get(f"child {n}", ("", ""))[0] == Outcome.PASSED.value:
        units, end = (
            {str(unit): (Outcome.PASSED.value, "") for unit in range(len(tests.units))},
            (Outcome.PASSED.value, ""),
        )
    else:
        prefix = f"child {n} unit "
        units = {
            label.removeprefix(prefix): record
            for label, record in records.items()
            if label.startswith(prefix)
        }
        end = records.get(f"child {n} end")
        if (
            end is None
            or not _is_of_tests(units)
            or records.get("end", ("", None))[1] != ran.detail
        ):
            return None
    its_run = ran.model_copy(update={"outcome": Outcome(end[0]), "detail": end[1]})
    return tests.finish(of_records(its_run, {**units, "code": (Outcome.PASSED.value, "")}, tests))


def _is_of_tests(units: Records) -> bool:
    """Return True if the failures are exceptions that would also occur if the tests ran alone."""
    named = [
        _EXCEPTION.findall(detail)
        for word, detail in units.values()
        if word != Outcome.PASSED.value
    ]
    return bool(named) and all(names and _DECISIVE_NAMES.issuperset(names) for names in named)


def run_variants(
    sandbox: Sandbox, code: str, variants: Sequence[PythonTests], limits: Limits
) -> tuple[ProgramVerdict, tuple[tuple[Outcome, ...] | None, ...]]:
    """Run the code once, and each variant of its tests from the state that the code left.

    Args:
        sandbox: sandbox that isolates.
        code: code of the candidate.
        variants: at least one, with equal `main` and `kind`.
        limits: limits of each variant. The wall-clock limit is that of the run.

    Returns:
        The verdict on the run, and for each variant the outcomes of its units, or None for a
        variant that must run alone. A unit that was not executed has failed. If the tests finished
        but the process did not end well, all units have failed.

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run the program. This says nothing
            about the candidate.
    """
    job = job_of(code, variants[0]) | {"together": "1"}
    ran, records = run_job(sandbox, job, tuple(fields(*tests.packed) for tests in variants), limits)
    if ran.reason is FailureReason.TAMPERING:
        return ran, (None,) * len(variants)
    words = [records.get(f"child {n} units", ("", None))[1] for n in range(len(variants))]
    return ran, tuple(None if word is None else tuple(map(_outcome_of, word)) for word in words)


def _outcome_of(letter: str) -> Outcome:
    return Outcome.PASSED if letter == "p" else Outcome.FAILED
