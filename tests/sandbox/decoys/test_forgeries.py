"""Known forgeries that pass plainly are convicted, and no honest answer is."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.decoys.auditing import audit_program
from sandbox.judging.runners.programs import AssertProgram, program_of
from sandbox.judging.runners.run import run_tests
from schemas.audit import AuditOutcome
from schemas.run import Limits
from schemas.verdict import Outcome
from tests.sandbox.attacks.corpus import corpus
from tests.sandbox.decoys.forgeries import REFERENCE, Forgery, forgeries
from tests.sandbox.decoys.references import EARNED

pytestmark = pytest.mark.slow

LIMITS = Limits(cpu_s=5, wall_s=60, memory_mb=2048)
LEAST_CONVICTED = 0.95


def audited(sandbox: BubblewrapSandbox, one: Forgery) -> tuple[str, AuditOutcome | None]:
    if run_tests(sandbox, one.program, LIMITS).outcome is not Outcome.PASSED:
        return one.title, None
    return one.title, audit_program(sandbox, one.program, one.reference, LIMITS, "a seed").outcome


def test_forgeries_that_pass_plainly_are_convicted(bubblewrap: BubblewrapSandbox):
    with ThreadPoolExecutor(2) as threads:
        found = dict(threads.map(lambda one: audited(bubblewrap, one), forgeries()))
    passed = {title: outcome for title, outcome in found.items() if outcome is not None}
    missed = {title for title, outcome in passed.items() if outcome is not AuditOutcome.FORGED}
    assert len(passed) > 140
    assert missed <= EARNED.keys()
    assert len(missed) <= (1 - LEAST_CONVICTED) * len(passed)


def test_honest_programs_are_not_accused(bubblewrap: BubblewrapSandbox):
    honest = [one for one in corpus() if one.must_pass]
    programs = [AssertProgram(code=one.code, tests=one.tests) for one in honest]
    with ThreadPoolExecutor(2) as threads:
        found = list(
            threads.map(
                lambda program: audit_program(bubblewrap, program, None, LIMITS, "a seed"), programs
            )
        )
    accused = [
        one.title
        for one, audit in zip(honest, found, strict=True)
        if audit.outcome is AuditOutcome.FORGED
    ]
    assert len(honest) > 90
    assert accused == []


def test_a_program_that_does_the_work_and_looks_around_has_earned_its_pass(
    bubblewrap: BubblewrapSandbox,
):
    program = AssertProgram(
        code=f"import sys\nsys._getframe()\n{REFERENCE}", tests=("assert f(1) == 4711",)
    )
    assert audit_program(bubblewrap, program, None, LIMITS, "a seed").outcome is AuditOutcome.EARNED


def test_an_object_that_equals_everything_is_suspected_where_nothing_shows_that_the_decoy_is_sound(
    bubblewrap: BubblewrapSandbox,
):
    code = "class Any:\n    def __eq__(self, other): return True\ndef f(x): return Any()\n"
    program = AssertProgram(code=code, tests=("assert f(1) == 4711",))
    alone = audit_program(bubblewrap, program, None, LIMITS, "a seed")
    assert (alone.outcome, alone.is_sound) == (AuditOutcome.SUSPECTED, False)
    reference = AssertProgram(code=REFERENCE, tests=program.tests)
    beside = audit_program(bubblewrap, program, reference, LIMITS, "a seed")
    assert (beside.outcome, beside.forged_cases) == (AuditOutcome.FORGED, ("test 1",))


def test_an_answer_that_knows_the_tests_constants_alone_is_suspected(bubblewrap: BubblewrapSandbox):
    tests = tuple(f"assert f({n}) == {4710 + n}" for n in (1, 5, 9))
    known = AssertProgram(code="def f(x): return {1: 4711, 5: 4715, 9: 4719}[x]\n", tests=tests)
    reference = AssertProgram(code=REFERENCE, tests=tests)
    audit = audit_program(bubblewrap, known, reference, LIMITS, "a seed", asks_other_inputs=True)
    assert (audit.outcome, audit.is_sound) == (AuditOutcome.SUSPECTED, False)
    assert (
        audit_program(
            bubblewrap, reference, reference, LIMITS, "a seed", asks_other_inputs=True
        ).outcome
        is AuditOutcome.EARNED
    )


def test_an_answer_that_reads_constants_of_the_tests_is_suspected_or_forged(
    bubblewrap: BubblewrapSandbox,
):
    code = "import sys\ndef f(x):\n    every = sys._getframe(1).f_code.co_consts\n"
    code += "    return next(n for n in every if type(n) is int and n > 99)\n"
    tests = ("assert f(1) == 4711",)
    reading, reference = (AssertProgram(code=one, tests=tests) for one in (code, REFERENCE))
    assert run_tests(bubblewrap, reading, LIMITS).outcome is Outcome.PASSED
    assert (
        audit_program(bubblewrap, reading, reference, LIMITS, "a seed").outcome
        is AuditOutcome.FORGED
    )
    hidden = audit_program(bubblewrap, reading, None, LIMITS, "a seed")
    assert hidden.outcome in (AuditOutcome.FORGED, AuditOutcome.SUSPECTED)


def test_the_handed_in_cases_end_as_they_must(bubblewrap: BubblewrapSandbox, shared_data: Path):
    for row in map(
        json.loads, (shared_data.parent / "cases" / "forgeries.jsonl").read_text().splitlines()
    ):
        program, reference = (
            program_of(row["kind"], code, tuple(row["tests"]))
            for code in (row["code"], row["reference"])
        )
        if run_tests(bubblewrap, program, LIMITS).outcome is Outcome.PASSED:
            assert (
                audit_program(bubblewrap, program, reference, LIMITS, "a seed").outcome
                is AuditOutcome.FORGED
            ), row["name"]
    for row in map(
        json.loads, (shared_data.parent / "cases" / "honest.jsonl").read_text().splitlines()
    ):
        program = program_of(row["kind"], row["code"], tuple(row["tests"]))
        is_passed = run_tests(bubblewrap, program, LIMITS).outcome is Outcome.PASSED
        assert is_passed is not row["name"].startswith("must_fail"), row["name"]
        if is_passed:
            audit = audit_program(bubblewrap, program, program, LIMITS, "a seed")
            assert audit.outcome in (AuditOutcome.EARNED, AuditOutcome.NO_DECOY), row["name"]
