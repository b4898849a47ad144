"""The tables `comparisons` and `history` of a small family of checkpoints."""

from pathlib import Path
from typing import Any

import pytest

from schemas.lake.tables import TABLES
from tests.warehouse.comparison.checkpoints import (
    FAMILY,
    checkpoint,
    empty_lake,
    judge_says,
    passing,
    rule,
    write,
)
from tests.warehouse.small_run import IA
from warehouse.comparison import pairs
from warehouse.comparison.pairs import compare_scores
from warehouse.connect import query
from warehouse.intervals import wilson
from warehouse.publication.publish import publish

HIGHER = {IA: "higher"}
EVENTS = "select run_id, other_run_id, event from comparisons order by run_id"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return empty_lake(tmp_path / "home")


def rows(home: Path, table: str) -> list[dict[str, Any]]:
    columns, found = query(home, f"select * from {table} order by all")
    return [dict(zip(columns, row, strict=True)) for row in found]


@pytest.mark.slow
def test_a_checkpoint_is_compared_with_its_predecessor_and_the_baseline(home: Path) -> None:
    """`step-900` came last, and stands first all the same."""
    old, new, late, gold = (
        checkpoint(home, name) for name in ("step-1000", "step-2000", "step-900", "gold")
    )
    for night, (run, n_passed) in enumerate(
        ((gold, 20), (old, 18), (new, 10), (late, 18)), start=1
    ):
        write(run, passing(n_passed), night)
    for run in (old, new, late):
        rule(run, baseline="vllm:/models/gold")
    publish(home, directions=HIGHER)
    found = {(row["run_id"], row["against"]): row for row in rows(home, "comparisons")}
    assert {key: row["other_run_id"] for key, row in found.items()} == {
        (old.run_id, "predecessor"): late.run_id,
        (new.run_id, "predecessor"): old.run_id,
        **{(run.run_id, "baseline"): gold.run_id for run in (old, new, late)},
    }
    lost = found[new.run_id, "predecessor"]
    # eight problems lost and none won: 2 / 2^8
    assert (lost["mean"], lost["other_mean"], lost["difference"]) == (0.5, 0.9, pytest.approx(-0.4))
    assert (lost["n"], lost["n_problems"], lost["test"], lost["p_value"]) == (
        20,
        20,
        "mcnemar",
        pytest.approx(2 / 2**8),
    )
    assert (lost["q_value"], lost["event"]) == (lost["p_value"], "regression")
    assert lost["ci_low"] < -0.4 < lost["ci_high"] < 0
    assert (
        found[old.run_id, "predecessor"]["difference"],
        found[old.run_id, "predecessor"]["event"],
    ) == (0, None)
    assert found[old.run_id, "baseline"]["event"] is None, (
        "two problems lost of 20 may be chance: 2 / 2^2"
    )


@pytest.mark.slow
def test_a_metric_that_is_no_share_has_no_wilson_interval(home: Path) -> None:
    run = checkpoint(home, "gold")
    write(run, passing(20), 1)
    intervals: list[tuple[float | None, float | None]] = []
    for is_share in (True, False, True):
        publish(home, shares={IA: is_share})
        assert publish(home, shares={IA: is_share}).replaced is False
        [row] = [row for row in rows(home, "results") if row["axis"] == "all"]
        intervals.append((row["ci_low"], row["ci_high"]))
    assert intervals == [wilson(20, 20), (None, None), wilson(20, 20)]


@pytest.mark.slow
def test_a_threshold_decides_what_is_a_regression_and_a_metric_without_direction_has_none(
    home: Path,
) -> None:
    old, new = checkpoint(home, "step-1"), checkpoint(home, "step-2")
    write(old, passing(18), 1)
    write(new, passing(10), 2)
    rule(old)
    for threshold, of_metric, event in (
        (0.5, 0.5, None),
        (0.5, 0.3, "regression"),
        (0.3, 0.5, None),
    ):
        rule(new, threshold=threshold, thresholds={IA: of_metric})
        publish(home, directions=HIGHER)
        assert [(row["event"], row["threshold"]) for row in rows(home, "comparisons")] == [
            (event, of_metric)
        ]
    rule(new)
    publish(home, directions={IA: "lower"})
    assert [row["event"] for row in rows(home, "comparisons")] == ["improvement"]
    publish(home, rebuild=True)
    assert [(row["event"], row["better"]) for row in rows(home, "comparisons")] == [(None, None)]


@pytest.mark.slow
def test_only_what_both_runs_have_a_score_of_is_paired_and_the_rest_is_counted(home: Path) -> None:
    old, new = checkpoint(home, "step-1"), checkpoint(home, "step-2")
    write(old, {"Q1": (1, None), "Q2": (1, 0), "Q3": (0,)}, 1)
    write(new, {"Q1": (0, 1), "Q2": (1, 1), "Q4": (0, 0)}, 2)
    for run in (old, new):
        rule(run)
    publish(home, directions=HIGHER)
    [row] = rows(home, "comparisons")
    # pairs: Q1 turn 1 (0 - 1), Q2 turn 1 (1 - 1), Q2 turn 2 (1 - 0)
    assert (row["n"], row["n_problems"], row["n_unpaired"], row["n_unpaired_other"]) == (3, 2, 3, 1)
    assert (row["mean"], row["other_mean"], row["difference"]) == (
        pytest.approx(2 / 3),
        pytest.approx(2 / 3),
        0,
    )
    # by problem -1 and +1/2: any two signs are as extreme
    assert (row["test"], row["p_value"]) == ("wilcoxon", 1.0)


@pytest.mark.slow
def test_a_moved_judge_stands_beside_the_difference(home: Path) -> None:
    old, new, next_one = (checkpoint(home, f"step-{n}", is_judged=True) for n in (1, 2, 3))
    for night, (run, n_passed) in enumerate(((old, 18), (new, 10), (next_one, 10)), start=1):
        write(run, passing(n_passed), night)
        rule(run)
    judge_says(home, 1, (3, 4, 5))
    judge_says(home, 2, (2, 4, 4))
    judge_says(home, 3, (2, 4, 4))
    publish(home, directions=HIGHER)
    found = {row["run_id"]: row for row in rows(home, "comparisons")}
    moved = [
        (row["judge_n"], row["judge_n_changed"], row["judge_mean_shift"])
        for row in map(found.get, (new.run_id,))
        if row
    ]
    assert moved == [(3, 2, pytest.approx(-2 / 3))]
    assert (
        found[next_one.run_id]["judge_n_changed"],
        found[next_one.run_id]["judge_mean_shift"],
    ) == (0, 0)
    shown = [(row["position"], row["judge_n_changed"]) for row in rows(home, "history")]
    assert shown == [(1, None), (2, 2), (3, 0)]


@pytest.mark.slow
def test_runs_that_differ_besides_the_model_say_so(home: Path) -> None:
    old, new = checkpoint(home, "step-1"), checkpoint(home, "step-2", is_judged=True)
    for night, run in enumerate((old, new), start=1):
        write(run, passing(10), night)
        rule(run)
    publish(home)
    assert [row["also_differs"] for row in rows(home, "comparisons")] == [["judges"]]


@pytest.mark.slow
def test_a_series_has_its_trend_and_change_point(home: Path) -> None:
    for night, n_passed in enumerate((16, 17, 18, 19, 5, 6, 7, 8), start=1):
        run = checkpoint(home, f"step-{night}")
        write(run, passing(n_passed), night)
        rule(run)
    publish(home, directions=HIGHER)
    found = rows(home, "history")
    assert [
        (row["family"], row["position"], row["mean"], row["is_change_point"]) for row in found
    ] == [
        (FAMILY, position, n_passed / 20, position == 5)
        for position, n_passed in enumerate((16, 17, 18, 19, 5, 6, 7, 8), start=1)
    ]
    # the upper four first, or the lower four: 2 (4! 4!) / 8!
    assert all(
        (row["n_points"], row["change_p"], row["change_q"])
        == (8, pytest.approx(1 / 35), row["change_p"])
        for row in found
    )
    # 12 pairs rise, 16 fall
    assert found[0]["trend_tau"] == pytest.approx((12 - 16) / 28)


@pytest.mark.slow
def test_only_pairs_with_a_changed_run_are_compared_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [checkpoint(home, f"step-{n}") for n in (1, 2, 3)]
    for night, run in enumerate(runs[:2], start=1):
        write(run, passing(10 + night), night)
        rule(run)
    publish(home, directions=HIGHER)
    asked: list[tuple[str, str]] = []

    def compare(connection: Any, run_id: str, other: str) -> Any:
        asked.append((run_id, other))
        return compare_scores(connection, run_id, other)

    monkeypatch.setattr(pairs, "compare_scores", compare)
    write(runs[2], passing(3), 3)
    rule(runs[2])
    publish(home, directions=HIGHER)
    assert asked == [(runs[2].run_id, runs[1].run_id)]
    kept = [rows(home, table) for table in ("comparisons", "history")]
    publish(home, directions=HIGHER, rebuild=True)
    assert [rows(home, table) for table in ("comparisons", "history")] == kept
    assert len(kept[0]) == 2


@pytest.mark.slow
def test_a_lake_without_rules_has_models_for_families(home: Path) -> None:
    runs = [checkpoint(home, f"step-{n}") for n in (1, 2)]
    for night, run in enumerate(runs, start=1):
        write(run, passing(10 + night), night)
    assert not (home / "lake" / TABLES["comparison_rules"].name).exists()
    publish(home, directions=HIGHER)
    assert rows(home, "comparisons") == []
    assert [(row["family"], row["n_points"], row["trend_p"]) for row in rows(home, "history")] == [
        (run.subject.label, 1, None) for run in runs
    ]
