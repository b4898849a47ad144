"""Programs that an audit draws, and the rows that it writes."""

from schemas.audit import AUDIT_SAMPLE, Audited, AuditOutcome, audit_counts
from schemas.run import ModelEndpoint, ModelIdentity, RunSpec
from tasks.audit import assembled, drawn, pending
from tasks.benchmarks.contract import TestRun
from tasks.language.access import ModelAccess
from tasks.worker.audit_shard import audit_rows
from tasks.worker.jobs import AuditItem, Pass, RunContext

PROGRAMS = [f"program {number:03}" for number in range(AUDIT_SAMPLE + 50)]
SPEC = RunSpec(
    benchmark="b",
    benchmark_version="1",
    setting="s",
    dataset_version="v",
    dataset_digest="d",
    subject=ModelIdentity(provider="recorded", name="m"),
)
SUBJECT = ModelAccess(SPEC.subject, ModelEndpoint())
CONTEXT = RunContext("home", "now", SPEC, SUBJECT, None, 1, "environment", "rows")
TESTS = TestRun(
    turn=1,
    instruction_id="",
    code="x = 1",
    tests=("a", "b"),
    kind="pytest",
    decides={"A": ("a",), "B": ("b",)},
)
BY_CASES = AuditItem(
    "p1",
    TESTS,
    tuple(
        Pass(episode, "problem", sample, 1, name, f"p1 {name}", (name.lower(),))
        for sample, episode in enumerate(("e1", "e2"))
        for name in ("A", "B")
    ),
)
"""One program of two episodes, whose cases decide an instruction each."""
AUDIT = Audited(
    outcome=AuditOutcome.FORGED,
    decoy="assert f(1) == 2",
    is_sound=True,
    forged_cases=("a",),
    n_decoys=2,
    n_runs=3,
    duration_s=1.5,
)


def test_a_sample_is_drawn_by_seed_and_all_where_there_are_fewer() -> None:
    assert drawn(PROGRAMS, "none", 0) == []
    assert sorted(drawn(PROGRAMS, "all", 0)) == PROGRAMS
    assert sorted(drawn(PROGRAMS[:7], "sample", 0)) == PROGRAMS[:7]
    first, second = drawn(PROGRAMS, "sample", 0), drawn(PROGRAMS, "sample", 1)
    assert len(first) == len(second) == AUDIT_SAMPLE
    assert first == drawn(reversed(PROGRAMS), "sample", 0) != second


def test_a_run_that_grows_keeps_the_order_of_its_programs() -> None:
    small, large = drawn(PROGRAMS[:100], "sample", 3), drawn(PROGRAMS, "all", 3)
    assert [program for program in large if program in small] == small


def test_a_conviction_is_of_the_instructions_whose_cases_were_forged() -> None:
    rows = audit_rows(CONTEXT, BY_CASES, AUDIT)
    assert {row.instruction_id: (row.outcome, row.decoy, row.is_sound) for row in rows} == {
        "A": (AuditOutcome.FORGED, "assert f(1) == 2", True),
        "B": (AuditOutcome.EARNED, "", False),
    }
    assert [(row.n_runs, row.duration_s) for row in rows] == [(3, 1.5), (0, 0.0)]


def test_equal_programs_of_two_episodes_are_audited_once_and_have_a_row_each() -> None:
    known = {row.verdict_id: row for row in audit_rows(CONTEXT, BY_CASES, AUDIT)}
    assert pending([BY_CASES], {}) == [BY_CASES]
    assert pending([BY_CASES], known) == []
    rows = assembled(CONTEXT, [BY_CASES], known, "lost")
    assert [
        (row.episode_id, row.sample, row.instruction_id, row.outcome.value) for row in rows
    ] == [
        ("e1", 0, "A", "forged"),
        ("e1", 0, "B", "earned"),
        ("e2", 1, "A", "forged"),
        ("e2", 1, "B", "earned"),
    ]
    counts = audit_counts(rows)
    assert (counts.n_audited, counts.n_forged, counts.n_runs, counts.seconds, counts.share) == (
        4,
        2,
        3,
        1.5,
        0.5,
    )


def test_a_program_whose_worker_died_has_no_decoy_and_says_why() -> None:
    rows = assembled(CONTEXT, [BY_CASES], {}, "its worker process died")
    assert {(row.outcome, row.detail) for row in rows} == {
        (AuditOutcome.NO_DECOY, "its worker process died")
    }
    assert audit_counts(rows).n_audited == 0
