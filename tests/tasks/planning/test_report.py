from collections.abc import Sequence

from schemas.audit import AuditCounts
from schemas.dialog import Role
from schemas.episode import Episode, Score, Step, StopReason, UnscoredReason
from schemas.lake.records import QualityCheck
from tasks.dialogue.agents.repository.labels import ENDED, FINISHED
from tasks.planning.reporting.report import forged_because, with_counts, withheld_because
from tests.tasks.planning.test_why_rerun import record


def episode(name: str, stop_reason: StopReason = StopReason.FINISHED) -> Episode:
    return Episode(
        episode_id=name,
        run_id="r",
        benchmark="b",
        model="m",
        setting="s",
        dataset_version="v",
        problem_id="p",
        dialog_id="p",
        row_digest="d",
        sample=0,
        seed=0,
        attempt=1,
        stop_reason=stop_reason,
        started_at="",
        finished_at="",
        steps=(),
    )


def score(name: str, reason: UnscoredReason | None = None) -> Score:
    value = None if reason else 1.0
    return Score(
        run_id="r",
        benchmark="b",
        model="m",
        episode_id=name,
        problem_id="p",
        sample=0,
        turn=1,
        metric="x",
        metric_version=1,
        value=value,
        unscored_reason=reason,
    )


RECORD = record()


def withheld(
    n: int,
    faulty: int,
    max_fault_share: float = 0.01,
    failures: Sequence[QualityCheck] = (),
    fault: str | None = None,
    *,
    n_infra: int | None = None,
    is_permanent: bool = False,
) -> str | None:
    counts = {"n_episodes": n, "n_infra": faulty if n_infra is None else n_infra}
    counted = RECORD.model_copy(update=counts)
    return withheld_because(
        counted, faulty, max_fault_share, failures, fault, is_permanent=is_permanent
    )


def test_an_episode_with_several_faults_counts_once() -> None:
    scores = [score("a", UnscoredReason.INFRA), score("a", UnscoredReason.INFRA), score("b")]
    found, n_faulty, _ = with_counts(
        RECORD, 2, [episode("a", StopReason.INFRA), episode("b")], scores
    )
    assert (n_faulty, found.n_infra, found.n_unscored) == (1, 1, 2)


def test_the_end_of_an_agent_s_work_is_no_empty_answer() -> None:
    steps = tuple(
        Step(turn=turn, role=Role.ASSISTANT, content="", labels=labels)
        for turn, labels in ((1, ()), (2, ((ENDED, FINISHED),)))
    )
    played = episode("a").model_copy(update={"steps": steps})
    counted, _, n_answers = with_counts(RECORD, 1, [played], [])
    assert (counted.n_empty, n_answers) == (1, 1)


def test_a_ratio_that_has_no_denominator_is_no_fault() -> None:
    scores = [score("a", UnscoredReason.NOTHING_TO_FORGET)]
    _, n_faulty, _ = with_counts(RECORD, 1, [episode("a")], scores)
    assert n_faulty == 0


def test_a_wanted_episode_that_does_not_exist_is_infra() -> None:
    found, n_faulty, _ = with_counts(RECORD, 3, [episode("a")], [score("a")])
    assert (found.n_episodes, n_faulty, found.n_infra) == (3, 2, 2)


def test_exactly_the_limit_is_published_and_one_more_is_withheld() -> None:
    assert withheld(200, 2) is None
    reason = withheld(200, 3)
    assert reason is not None
    assert "3 of 200" in reason
    assert "1.0%" in reason


def test_the_cause_comes_first_where_asking_again_cannot_help() -> None:
    refused = "model 'm' at http://host/v1: HTTP 401: no. The key was rejected"
    reason = withheld(200, 200, fault=refused, is_permanent=True)
    assert reason is not None
    assert reason.startswith(f"{refused}. So 200 of 200 episodes")
    assert "Run again" not in reason
    reason = withheld(200, 200, fault="HTTP 503")
    assert reason is not None
    assert "Run again" in reason
    assert reason.endswith("The last fault: HTTP 503")
    assert "Run again" not in (withheld(200, 200, n_infra=0) or "")


def test_more_forged_passes_than_the_limit_withhold_and_exactly_the_limit_does_not() -> None:
    assert forged_because(AuditCounts(), 0.0) is None
    assert forged_because(AuditCounts(n_audited=200, n_forged=2, n_suspected=90), 0.01) is None
    reason = forged_because(AuditCounts(n_audited=200, n_forged=3), 0.01)
    assert reason is not None
    assert "3 of 200 audited passes are forged (1.5%), more than the 1.0%" in reason


def test_a_failed_check_withholds_whatever_the_faults() -> None:
    check = QualityCheck(
        run_id="r",
        benchmark="b",
        model="m",
        table_name="scores",
        suite="scores",
        expectation="values are shares",
        success=False,
        crashed=False,
        blocking=True,
        detail="7.0 in row 3",
        checked_at="",
    )
    reason = withheld(1, 0, 1.0, [check, check])
    assert reason == "quality check scores: values are shares failed and 1 more: 7.0 in row 3"
