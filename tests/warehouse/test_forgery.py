"""The audit in the warehouse: convicted passes in `test_verdicts`, and the mart `forgery` against a
hand-worked run.

Of the run alpha-1 four verdicts pass. Their audits: P1's first answer is forged, its third is
suspected, P3's first is earned, and P3's second has no decoy.
"""

import pytest
from scipy.stats import binomtest

from schemas.audit import AuditOutcome, ForgeryAudit
from schemas.content_id import content_id
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.small_run import INSTRUCTIONS, Run
from warehouse.connect import query
from warehouse.intervals import exact_binomial
from warehouse.publication.publish import publish

AUDITS = {
    ("P1", 1): AuditOutcome.FORGED,
    ("P1", 3): AuditOutcome.SUSPECTED,
    ("P3", 1): AuditOutcome.EARNED,
    ("P3", 2): AuditOutcome.NO_DECOY,
}
"""(problem, turn) -> what the audit of the pass says."""


def audit(run: Run, problem: str, turn: int, outcome: AuditOutcome) -> ForgeryAudit:
    return ForgeryAudit(
        run_id=run.run_id,
        benchmark="codeif",
        model=run.subject.label,
        episode_id=run.episode_id(problem, 0),
        problem_id=problem,
        sample=0,
        turn=turn,
        instruction_id=INSTRUCTIONS[problem][turn - 1],
        verdict_id=content_id([problem, 0, turn]),
        decoy="assert f(1) == 2",
        outcome=outcome,
        is_sound=outcome is AuditOutcome.FORGED,
        n_decoys=1,
        n_runs=1,
        duration_s=0.5,
    )


@pytest.fixture
def audited(lake: SmallLake) -> SmallLake:
    """The small lake, published with the audit of alpha-1."""
    run = lake.alpha_1
    run.write("forgery_audit", [audit(run, *place, outcome) for place, outcome in AUDITS.items()])
    publish(lake.home)
    return lake


def test_the_mart_counts_passes_and_their_audits(audited: SmallLake) -> None:
    columns = "n_passed, n_audited, n_forged, n_suspected, share, ci_low, ci_high"
    sql = f"select benchmark, setting, model, {columns} from forgery where run_id = $run"
    found = binomtest(1, 3).proportion_ci(0.95, method="exact")
    assert query(audited.home, sql, {"run": audited.alpha_1.run_id})[1] == [
        *[
            (
                "codeif",
                "codeif.static",
                "openai:alpha",
                4,
                3,
                1,
                1,
                pytest.approx(1 / 3),
                *map(pytest.approx, found),
            )
        ]
    ]


def test_a_run_without_an_audit_has_no_share(audited: SmallLake) -> None:
    sql = "select n_passed, n_audited, share, ci_low, ci_high from forgery where run_id = $run"
    assert query(audited.home, sql, {"run": audited.beta.run_id})[1] == [(3, 0, None, None, None)]


def test_a_convicted_pass_is_failed_and_its_plain_outcome_stays(audited: SmallLake) -> None:
    columns = "problem_id, turn, outcome, reason, plain_outcome, detail"
    sql = (
        f"select {columns} from test_verdicts where run_id = $run and plain_outcome = 'passed' "
        "order by problem_id, turn"
    )
    assert query(audited.home, sql, {"run": audited.alpha_1.run_id})[1] == [
        (
            "P1",
            1,
            "failed",
            "forged",
            "passed",
            "forged: the tests also pass with assert f(1) == 2",
        ),
        ("P1", 3, "passed", None, "passed", ""),
        ("P3", 1, "passed", None, "passed", ""),
        ("P3", 2, "passed", None, "passed", ""),
    ]
    every = query(audited.home, "select count(*) from test_verdicts where plain_outcome is null")[1]
    assert every == [(0,)]


def test_another_run_that_shares_the_episodes_keeps_its_passes(audited: SmallLake) -> None:
    sql = (
        "select outcome from test_verdicts where run_id = $run and problem_id = 'P1' and sample "
        "= 0 and turn = 1"
    )
    assert query(audited.home, sql, {"run": audited.alpha_2.run_id})[1] == [("passed",)]


def test_the_leaderboard_shows_the_share_beside_each_score(audited: SmallLake) -> None:
    found = dict(query(audited.home, "select distinct run_id, forged_share from leaderboard")[1])
    assert found[audited.alpha_1.run_id] == pytest.approx(1 / 3)
    assert found[audited.beta.run_id] is None


def test_an_audit_of_no_pass_withholds_the_run(lake: SmallLake) -> None:
    run = lake.alpha_1
    run.write("forgery_audit", [audit(run, "P1", 2, AuditOutcome.FORGED)])
    publish(lake.home)
    [(status, reason)] = query(
        lake.home,
        "select status, withheld_reason from runs where run_id = $run",
        {"run": run.run_id},
    )[1]
    assert status == "withheld"
    assert "audited_passes: 1 audited passes are none of its test verdicts" in reason


@pytest.mark.parametrize("n", [1, 7, 200])
def test_the_exact_interval_is_what_scipy_says_from_none_to_all(n: int) -> None:
    for k in range(n + 1):
        found = binomtest(k, n).proportion_ci(0.95, method="exact")
        assert exact_binomial(k, n) == pytest.approx((found.low, found.high), abs=1e-9)


@pytest.mark.parametrize(("k", "n"), [(0, 0), (-1, 3), (4, 3)])
def test_no_exact_interval_of_impossible_counts(k: int, n: int) -> None:
    with pytest.raises(ValueError, match="successes"):
        exact_binomial(k, n)
