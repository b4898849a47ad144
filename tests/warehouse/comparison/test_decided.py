"""A run that stopped by a decision, in `comparisons`, the messages, the texts and the pages of the
site.
"""

import re
from pathlib import Path

import pytest

from flows.night.reporting.events import pair_text, verdict
from flows.site.charts import narrowing_charts
from flows.text.results import compared_rows, result_markdown
from schemas.episode import Score
from schemas.night.decision import Decision, DecisionName, SequencePoint
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tests.flows.parley_command import parley
from tests.warehouse.comparison.checkpoints import (
    CheckpointRun,
    checkpoint,
    empty_lake,
    passing,
    rule,
    write,
)
from tests.warehouse.small_run import IA
from warehouse.connect import connect
from warehouse.publication.publish import publish
from warehouse.site_rows import SiteRows

pytestmark = pytest.mark.slow
N_ASKED, N_TOTAL = 12, 20
OTHER = "conversation_accuracy_fraction"


def decide(run: CheckpointRun, baseline: CheckpointRun, decision: DecisionName) -> None:
    """Write how the run was decided against the baseline."""
    points = tuple(
        SequencePoint(n=n, low=-1 + 0.01 * n, high=1 - 0.1 * n) for n in range(1, N_ASKED + 1)
    )
    row = Decision(
        run_id=run.run_id,
        benchmark="codeif",
        model=run.subject.label,
        baseline_run_id=baseline.run_id,
        baseline_model=baseline.subject.label,
        metric=IA,
        margin=0.03,
        alpha=0.05,
        n_metrics=1,
        decision=decision,
        n_asked=N_ASKED,
        n_total=N_TOTAL,
        n_left_out=0,
        mean_difference=-0.5,
        low=points[-1].low,
        high=points[-1].high,
        mean=0.5,
        mean_low=0.2,
        mean_high=0.8,
        e_value=25,
        sequence=points,
    )
    run.write("decisions", [row], "decisions")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """`step-2` stopped after 12 of the 20 tasks that `step-1` has."""
    made = Home(empty_lake(tmp_path / "home"))
    old, new = checkpoint(made.path, "step-1"), checkpoint(made.path, "step-2")
    write(old, passing(18), 1)
    write(new, passing(6, N_ASKED), 2)
    for run in (old, new):
        rule(run)
    decide(new, old, "worse")
    publish(made.path, directions={IA: "higher"})
    return made


def test_a_decision_replaces_bootstrap_and_test_and_common_problems_are_compared(
    home: Home,
) -> None:
    new = checkpoint(home.path, "step-2")
    [row] = compared_rows(home, [new.run_id])
    assert (row["decision"], row["interval_kind"], row["event"]) == (
        "worse",
        "sequence",
        "regression",
    )
    assert (row["ci_low"], row["ci_high"]) == (pytest.approx(-0.88), pytest.approx(-0.2))
    assert [row[name] for name in ("test", "p_value", "q_value", "night_q", "mde")] == [None] * 5
    assert (row["n_problems"], row["n_unpaired"], row["n_unpaired_other"]) == (
        N_ASKED,
        0,
        N_TOTAL - N_ASKED,
    )
    assert (row["mean"], row["other_mean"]) == (0.5, 1.0), "the mean of the tasks that both have"
    publish(home.path, directions={IA: "higher"}, rebuild=True)
    assert compared_rows(home, [new.run_id]) == [row]
    assert "decided, confidence sequence -0.880…-0.200" in pair_text([row], None)


@pytest.mark.parametrize(("decision", "event"), [("equivalent", None), ("all_asked", "regression")])
def test_a_withdrawn_claim_brings_the_other_event(
    home: Home, decision: DecisionName, event: str | None
) -> None:
    old, new = checkpoint(home.path, "step-1"), checkpoint(home.path, "step-2")
    decide(new, old, decision)
    publish(home.path, directions={IA: "higher"})
    [row] = compared_rows(home, [new.run_id])
    assert (row["decision"], row["event"], row["p_value"] is None) == (
        decision,
        event,
        decision == "equivalent",
    )


def test_commands_artifact_and_site_name_the_sequence(home: Home) -> None:
    new = checkpoint(home.path, "step-2")
    shown = " ".join(parley(home.path, "compare", "step-1", "step-2").out.split())
    assert (
        "decided early by instruction_accuracy: worse, confidence sequence -0.880…-0.200" in shown
    )
    episode = f"{new.run_id[:16]}-Q01"
    assert (
        "Decided: vllm:/models/step-2 is worse than vllm:/models/step-1"
        in parley(home.path, "show", episode).out
    )
    drawn = re.findall(r"^ +(\d+) +\S+…\S+ ", result_markdown(home, [new.run_id]), re.MULTILINE)
    assert (drawn[0], drawn[-1], len(drawn)) == ("1", str(N_ASKED), 8)
    out = home.path.parent / "pages"
    assert parley(home.path, "site", "--out", out).code == 0
    page = (out / "runs" / f"{new.run_id[:12]}.html").read_text(encoding="utf-8")
    assert "<th>confidence sequence</th>" in page
    old = checkpoint(home.path, "step-1")
    compared = (out / "compared" / f"{old.run_id[:12]}-{new.run_id[:12]}.html").read_text(
        encoding="utf-8"
    )
    assert "confidence sequence, decided worse" in compared
    for text in (page, compared):
        drawing = text[text.index('<figure class="narrowing">') : text.index("</figure>")]
        assert "worse after 12 of 20 tasks (60%)" in drawing
        assert re.findall(r'<text class="axis"[^>]*>([^<]+)', drawing) == [
            "difference (new - baseline)",
            "share of tasks asked",
        ]
        assert [
            len(re.findall(f'class="{name}" x1', drawing)) for name in ("zero", "margin", "decided")
        ] == [1, 2, 1]
        assert re.findall(r'<text class="decided"[^>]*>([^<]+)', drawing) == ["worse"]


def test_the_chart_has_each_point_at_its_share_and_difference(home: Home) -> None:
    with SiteRows(home.path) as rows:
        [chart] = narrowing_charts(rows.decisions(checkpoint(home.path, "step-2").run_id))
    left, right, top, bottom, zero = (
        chart[name] for name in ("left", "right", "top", "bottom", "zero")
    )
    assert zero == (top + bottom) / 2
    assert chart["decided"] == pytest.approx(left + N_ASKED / N_TOTAL * (right - left), abs=0.1)
    assert [x for x, _ in chart["upper"]] == pytest.approx(
        [left + n / N_TOTAL * (right - left) for n in range(1, 13)], abs=0.1
    )
    limit = 1.1 * 0.96  # of the points after the first quarter; the earlier ones end at the border
    expected = [
        zero - max(-limit, -1 + 0.01 * n) / limit * (bottom - top) / 2 for n in range(1, 13)
    ]
    assert [y for _, y in chart["lower"]] == pytest.approx(expected, abs=0.1)
    assert chart["margins"] == pytest.approx(
        [zero + side * 0.03 / limit * (bottom - top) / 2 for side in (1, -1)], abs=0.1
    )


def test_other_scores_of_a_run_that_stopped_early_have_no_interval_and_no_test(home: Home) -> None:
    old, new = checkpoint(home.path, "step-1"), checkpoint(home.path, "step-2")
    for run in (old, new):
        scores = Lake(home.lake).read(
            "scores", Score, benchmark="codeif", model=run.subject.label, run_id=run.run_id
        )
        run.write(
            "scores", [score.model_copy(update={"metric": OTHER}) for score in scores], "other"
        )
    directions = {IA: "higher", OTHER: "higher"}
    publish(home.path, directions=directions)
    row, decided = sorted(compared_rows(home, [new.run_id]), key=lambda one: one["metric"])
    assert (row["metric"], row["difference"], decided["interval_kind"]) == (OTHER, -0.5, "sequence")
    assert [
        row[name]
        for name in ("ci_low", "ci_high", "interval_kind", "test", "p_value", "mde", "event")
    ] == [None] * 7
    why = (
        "vllm:/models/step-2 stopped when instruction_accuracy was decided: intervals and tests of "
        "other scores are undefined"
    )
    assert row["undefined_because"].startswith(why)
    assert verdict({**row, "difference": 0.0}) == "undecided", (
        "equal scores of a part are no equality of the whole"
    )
    board = "select ci_low, ci_high, interval_kind from leaderboard where metric = ? and model = ?"
    with connect(home.path) as connection:
        stopped, whole = (
            connection.execute(board, [OTHER, run.subject.label]).fetchone() for run in (new, old)
        )
    assert (stopped, whole is not None and whole[2]) == ((None, None, None), "bootstrap")
    assert why in " ".join(parley(home.path, "compare", "step-1", "step-2").out.split())
    assert "0.500 (stopped early), n=12" in result_markdown(home, [new.run_id])
    out = home.path.parent / "pages"
    assert parley(home.path, "site", "--out", out).code == 0
    assert "<small>none: stopped early</small>" in (
        out / "runs" / f"{new.run_id[:12]}.html"
    ).read_text(encoding="utf-8")
    assert why in (out / "compared" / f"{old.run_id[:12]}-{new.run_id[:12]}.html").read_text(
        encoding="utf-8"
    )

    decide(new, old, "all_asked")
    publish(home.path, directions=directions)
    assert {one["interval_kind"] for one in compared_rows(home, [new.run_id])} == {"bootstrap"}
