"""All instructions due on an answer in one run: the code is run once, and each one's tests in a child of it.

A pass is taken over as if the tests had run alone, under the same `verdict_id`, because it implies the same there:

- The code meets what it meets alone: the tests' text is not there while it runs.
- The child is the process that the code has run in: names, memory, random states, handlers, limits. Where a fork would hand on
  less than all (threads, children, timers) or children would share something (open files, memory), all is run alone.
- Files are as the code left them; CPU time is the code's and the child's together, time on the clock and memory that of the run
  for all of them, so each bound is met here later than alone, or as late.
- A child's word is sealed with a key of its own. A write into the runner's channel takes back every pass of the run.

A failure is taken over only where a test's own exception decided it, of a kind that neither another instruction nor lack of
room brings about: an assertion, a wrong type, name, value or key, a division by zero. All others (a MemoryError may come
of the joint run, an exception of a library of anything) run again alone, and the second verdict counts.
Code that does not compile, or that raises an exception before the first test, needs no second run, since no test has a part in
it.
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
"""The name in a traceback's last line, or what a message has in its place: then it is unknown, and its program runs alone."""


def run_together(
    sandbox: Sandbox, code: str, programs: Sequence[PythonTests], limits: Limits
) -> tuple[ProgramVerdict | None, ...]:
    """Run the code once, and each program's tests from the state that it left.

    Args:
        sandbox: one that isolates: the files of its scratch folders are put back as they were, and elsewhere they are the host's.
        programs: of the same `main` and `kind`.
        limits: of each program; time on the clock is that of the run.

    Returns:
        For each program its verdict, or None where it has to be run alone.

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run it; says nothing about the candidate.
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
    """Whether each failure is one that these tests have on this code wherever they run."""
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
        sandbox: one that isolates.
        variants: at least one, of the same `main` and `kind`.
        limits: of each variant; time on the clock is that of the run.

    Returns:
        How the run ended, and for each variant the outcome of each of its units: passed or failed, where a unit that was
        not reached has failed, and all have where the tests came to their ends and the process did not end well. None where the
        joint run does not decide it: it has to be run alone.

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run it; says nothing about the candidate.
    """
    job = job_of(code, variants[0]) | {"together": "1"}
    ran, records = run_job(sandbox, job, tuple(fields(*tests.packed) for tests in variants), limits)
    if ran.reason is FailureReason.TAMPERING:
        return ran, (None,) * len(variants)
    words = [records.get(f"child {n} units", ("", None))[1] for n in range(len(variants))]
    return ran, tuple(None if word is None else tuple(map(_outcome_of, word)) for word in words)


def _outcome_of(letter: str) -> Outcome:
    return Outcome.PASSED if letter == "p" else Outcome.FAILED
