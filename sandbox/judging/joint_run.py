"""All instructions due on an answer in one run: the code is run once, and each one's tests in a child of it.

A pass is taken over as if the tests had run alone, under the same `verdict_id`, because it implies the same there:

- The code meets what it meets alone: the tests' text is not there while it runs.
- The child is the process that the code has run in: names, memory, random states, handlers, limits. Where a fork would hand on
  less than all (threads, children, timers) or children would share something (open files, memory), all is run alone.
- Files are as the code left them; CPU time is the code's and the child's together, time on the clock and memory that of the run
  for all of them, so each bound is met here later than alone, or as late.
- A child's word is sealed with a key of its own. A write into the runner's channel takes back every pass of the run.

None of this holds for a failure, which another instruction or the lack of room may have caused: such an instruction is run
again alone, and the second verdict counts. Only code that does not compile needs no second run, since no test has a part in it.
"""

from collections.abc import Sequence

from sandbox.interface import Sandbox
from sandbox.judging.judged_run import PythonTests, Records, fields, job_of, of_records, run_job
from schemas.run import Limits
from schemas.verdict import FailureReason, Outcome, ProgramVerdict


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


def _of_child(ran: ProgramVerdict, records: Records, n: int, tests: PythonTests) -> ProgramVerdict | None:
    if ran.reason is FailureReason.TAMPERING:
        return None
    if "compile" in records:
        return tests.finish(of_records(ran, records, tests))
    if records.get(f"child {n}", ("", ""))[0] != Outcome.PASSED.value:
        return None
    passed = {str(unit): ("passed", "") for unit in range(len(tests.units))}
    return tests.finish(of_records(ran.model_copy(update={"outcome": Outcome.PASSED, "detail": ""}), passed, tests))


def run_variants(
    sandbox: Sandbox, code: str, variants: Sequence[PythonTests], limits: Limits
) -> tuple[ProgramVerdict, tuple[tuple[Outcome, ...] | None, ...]]:
    """Run the code once, and each variant of its tests from the state that the code left.

    Args:
        sandbox: one that isolates.
        variants: at least one, of the same `main` and `kind`.
        limits: of each variant; time on the clock is that of the run.

    Returns:
        How the run ended, and for each variant the outcome of each of its units (passed or failed), or None where the
        joint run does not decide it: it has to be run alone.

    Raises:
        SandboxUnavailable: the sandbox or its Python could not run it; says nothing about the candidate.
    """
    job = job_of(code, variants[0]) | {"together": "1"}
    ran, records = run_job(sandbox, job, tuple(fields(*tests.packed) for tests in variants), limits)
    if ran.reason is FailureReason.TAMPERING:
        return ran, (None,) * len(variants)
    words = [records.get(f"child {n} units", ("", None))[1] for n in range(len(variants))]
    return ran, tuple(
        None if said is None else tuple(Outcome.PASSED if word == "p" else Outcome.FAILED for word in said) for said in words
    )
