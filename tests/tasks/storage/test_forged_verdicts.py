"""A run's verdicts after its audit."""

from schemas.audit import AuditOutcome, ForgeryAudit
from schemas.lake.rows import from_arrow, to_arrow
from schemas.verdict import FailureReason, Outcome, TestVerdict
from tasks.storage.run_rows import forged_detail, with_forged_failed

RUN = {"run_id": "run", "benchmark": "b", "model": "m", "problem_id": "p", "sample": 0}


def verdict(episode: str, turn: int, *, n_passed: int | None = None) -> TestVerdict:
    return TestVerdict(
        **RUN,
        episode_id=episode,
        turn=turn,
        instruction_id="base",
        outcome=Outcome.PASSED,
        verdict_id=f"{episode} {turn}",
        sandbox="zygote",
        n_cases=n_passed,
        n_passed=n_passed,
    )


def audit(episode: str, turn: int, outcome: AuditOutcome, verdict_id: str = "") -> ForgeryAudit:
    return ForgeryAudit(
        **RUN,
        episode_id=episode,
        turn=turn,
        instruction_id="base",
        verdict_id=verdict_id or f"{episode} {turn}",
        outcome=outcome,
        decoy="assert f(1) == 2",
    )


def test_a_conviction_fails_its_pass_alone() -> None:
    verdicts = [verdict("e1", 1, n_passed=3), verdict("e1", 2), verdict("e2", 1), verdict("e2", 2)]
    audits = [
        audit("e1", 1, AuditOutcome.FORGED),
        audit("e1", 2, AuditOutcome.SUSPECTED),
        audit("e2", 1, AuditOutcome.EARNED),
        audit("e2", 2, AuditOutcome.FORGED, verdict_id="of another program"),
    ]
    table = to_arrow("test_verdicts", verdicts)
    overlaid = with_forged_failed(table, audits)
    assert overlaid.schema.equals(table.schema, check_metadata=True)
    found = from_arrow(overlaid, TestVerdict)
    assert found[1:] == verdicts[1:]
    changes = {
        "outcome": Outcome.FAILED,
        "reason": FailureReason.FORGED,
        "n_passed": 0,
        "detail": forged_detail(audits[0]),
    }
    assert found[0] == verdicts[0].model_copy(update=changes)
    assert [one.plain_outcome for one in found] == [Outcome.PASSED] * 4
