"""Marts against the hand-worked table of small_lake."""

from pathlib import Path
from typing import Any

import pytest

from schemas.episode import UnscoredReason
from schemas.errors import ConfigError, ParleyError
from tests.warehouse.conftest import Marts
from tests.warehouse.small_lake import ALPHA, SmallLake
from tests.warehouse.small_run import FRACTION, IA, IFR, STRICT, Run
from warehouse.connect import query
from warehouse.intervals import cluster_bootstrap, wilson
from warehouse.publication.publish import publish


def table(home: Path, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
    return query(home, sql, parameters or None)[1]


def test_leaderboard_states_means_beside_their_denominators(published: SmallLake) -> None:
    rows = table(
        published.home,
        "select metric, mean, dialog_mean, n, n_unscored, n_not_applicable, n_dialogs, "
        "n_problems from leaderboard"
        " where run_id = $run order by metric",
        run=published.alpha_2.run_id,
    )
    assert rows == [
        (
            FRACTION,
            pytest.approx(8 / 11),
            pytest.approx((0.75 + 1 + 0 + 1 + 1 + 0.75) / 6),
            11,
            1,
            0,
            6,
            3,
        ),
        (
            STRICT,
            pytest.approx(7 / 11),
            pytest.approx((0.5 + 1 + 0 + 1 + 1 + 0.5) / 6),
            11,
            1,
            0,
            6,
            3,
        ),
        (IA, 0.75, pytest.approx((2 / 3 + 1 + 0 + 1 + 1 + 1) / 6), 12, 2, 0, 6, 3),
        (IFR, 0.25, pytest.approx((0 + 0 + 0 + 1) / 4), 4, 1, 1, 4, 2),
    ]


def test_leaderboard_intervals_take_problems_as_clusters(published: SmallLake) -> None:
    [interval] = table(
        published.home,
        "select ci_low, ci_high from leaderboard where run_id = $run and metric = $metric",
        run=published.alpha_2.run_id,
        metric=IA,
    )
    values = {"P1": [1.0, 0, 1, 1, 1], "P2": [0.0, 0, 1], "P3": [1.0, 1, 1, 1]}
    flat = [(value, problem) for problem, of_problem in values.items() for value in of_problem]
    assert interval == cluster_bootstrap(*zip(*flat, strict=True))
    [beta] = table(
        published.home,
        "select ci_low, ci_high from leaderboard where run_id = $run",
        run=published.beta.run_id,
    )
    assert beta == wilson(3, 3)


def test_leaderboard_carries_the_run_and_its_isolation(published: SmallLake) -> None:
    rows = table(
        published.home,
        "select distinct night_id, benchmark, setting, model, revision, dataset_version, "
        "samples, sandbox, isolated, finished_at"
        " from leaderboard where run_id = $run",
        run=published.alpha_1.run_id,
    )
    assert rows == [
        (
            "night-1",
            "codeif",
            "codeif.static",
            "openai:alpha",
            "unpinned-2026-01-02",
            "v9",
            1,
            "bubblewrap",
            True,
            "2026-01-03T00:00:00Z",
        )
    ]


def test_pooling_goes_from_turn_to_dialog_to_dataset(published: SmallLake) -> None:
    run = published.alpha_2
    dialogs = table(
        published.home,
        "select problem_id, sample, mean, min, max, n_turns, n_unscored from pool_dialog"
        " where run_id = $run and metric = $metric order by problem_id, sample",
        run=run.run_id,
        metric=IA,
    )
    assert dialogs == [
        ("P1", 0, pytest.approx(2 / 3), 0, 1, 3, 0),
        ("P1", 1, 1, 1, 1, 2, 1),
        ("P2", 0, 0, 0, 0, 2, 0),
        ("P2", 1, 1, 1, 1, 1, 1),
        ("P3", 0, 1, 1, 1, 2, 0),
        ("P3", 1, 1, 1, 1, 2, 0),
    ]
    datasets = table(
        published.home,
        "select dialog_pool, mean, min, max, n_dialogs from pool_dataset where run_id = $run "
        "and metric = $metric"
        " order by dialog_pool",
        run=run.run_id,
        metric=IA,
    )
    assert datasets == [
        ("max", pytest.approx(5 / 6), 0, 1, 6),
        ("mean", pytest.approx(7 / 9), 0, 1, 6),
        ("min", pytest.approx(4 / 6), 0, 1, 6),
    ]


def test_an_all_unscored_turn_has_no_mean(published: SmallLake) -> None:
    [row] = table(
        published.home,
        "select mean, min, max, n, n_unscored, n_not_applicable from pool_turn"
        " where run_id = $run and metric = $metric and problem_id = 'P1' and sample = 1 and "
        "turn = 3",
        run=published.alpha_2.run_id,
        metric=IA,
    )
    assert row == (None, None, None, 0, 1, 0)


@pytest.mark.slow
def test_faults_in_sql_are_those_of_the_schema(published: SmallLake) -> None:
    for reason in UnscoredReason:
        assert table(published.home, "select is_fault($reason)", reason=reason.value) == [
            (reason.is_fault,)
        ]
    assert table(published.home, "select is_fault(null)") == [(False,)]


TURNS = (
    "select turn, ia, ca_strict, ca_fraction, ifr, n, n_unscored, n_ca, n_ifr, "
    "n_ifr_not_applicable from codeif_turns"
)


def test_codeif_turns_by_turn(published: SmallLake) -> None:
    where = " where run_id = $run and level = $level and axis = 'turn' order by turn"
    run = published.alpha_2.run_id
    assert table(published.home, TURNS + where, run=run, level="all") == [
        (1, pytest.approx(5 / 6), pytest.approx(5 / 6), pytest.approx(5 / 6), None, 6, 0, 6, 0, 0),
        (2, 0.6, 0.4, 0.6, 0.25, 5, 1, 5, 4, 1),
        (3, 1, None, None, None, 1, 1, 0, 0, 0),
    ]
    assert table(published.home, TURNS + where, run=run, level="L1") == [
        (1, 0.75, 0.75, 0.75, None, 4, 0, 4, 0, 0),
        (2, pytest.approx(1 / 3), pytest.approx(1 / 3), 0.5, 0, 3, 1, 3, 2, 1),
        (3, 1, None, None, None, 1, 1, 0, 0, 0),
    ]
    assert table(published.home, TURNS + where, run=run, level="L2") == [
        (1, 1, 1, 1, None, 2, 0, 2, 0, 0),
        (2, 1, 0.5, 0.75, 0.5, 2, 0, 2, 2, 0),
    ]


def test_codeif_turns_by_strategy_slot(published: SmallLake) -> None:
    rows = table(
        published.home,
        TURNS + " where run_id = $run and level = 'all' and axis = 'strategy_slot' order by turn",
        run=published.alpha_2.run_id,
    )
    assert rows == [
        (1, pytest.approx(5 / 6), pytest.approx(5 / 6), pytest.approx(5 / 6), None, 6, 0, 6, 0, 0),
        (2, 0.75, 0.5, 0.75, 0.25, 4, 0, 4, 4, 0),
        (3, 0, 0, 0, None, 1, 1, 1, 0, 1),
        (10, 1, None, None, None, 1, 1, 0, 0, 0),
    ]


def test_slot_8_of_all_levels_is_a_context_s_strategy_alone(published: SmallLake) -> None:
    query = (
        "select level, turn from codeif_turns where run_id = $run and axis = 'strategy_slot' and "
        "turn >= 8 order by all"
    )
    assert table(published.home, query, run=published.alpha_2.run_id) == [("L1", 8), ("all", 10)]


@pytest.mark.slow
def test_codeif_turns_has_an_all_level_only_in_runs_of_several(
    tmp_path: Path, codeif_marts: Marts
) -> None:
    lake = SmallLake(tmp_path)
    lake.write_dataset(level="L1")
    lake.write_models()
    lake.write_simple(lake.beta)
    publish(lake.home, marts=codeif_marts)
    assert table(lake.home, "select distinct level from codeif_turns") == [("L1",)]


def test_codeif_strategies_are_pooled_by_instruction(published: SmallLake) -> None:
    rows = table(
        published.home,
        "select instruction_id, ia, ca_strict, ca_fraction, ifr, n, n_unscored, n_ca, "
        "n_ca_unscored, n_ifr, n_ifr_unscored,"
        " n_ifr_not_applicable from codeif_strategies where run_id = $run and level = 'all' "
        "order by instruction_id",
        run=published.alpha_2.run_id,
    )
    assert rows == [
        ("Exception Handling", 0, 0, 0, None, 1, 1, 1, 1, 0, 1, 1),
        ("Functionality Extension", 1, None, None, None, 1, 1, 0, 0, 0, 0, 0),
        ("Input-Output Conditions", 0.75, 0.5, 0.75, 0.25, 4, 0, 4, 0, 4, 0, 0),
        (
            "base",
            pytest.approx(5 / 6),
            pytest.approx(5 / 6),
            pytest.approx(5 / 6),
            None,
            6,
            0,
            6,
            0,
            0,
            0,
            0,
        ),
    ]


def test_codeif_strategies_are_the_turns_of_their_slot_at_all_levels(published: SmallLake) -> None:
    """The two marts pool the same scores, so every number they share is the same, intervals
    included.
    """
    shared = (
        "ia, ia_low, ia_high, n, n_unscored, n_not_applicable, ca_strict, ca_strict_low, "
        "ca_strict_high, ca_fraction,"
        " ca_fraction_low, ca_fraction_high, ifr, ifr_low, ifr_high, n_ca, n_ca_unscored, "
        "n_ca_not_applicable, n_ifr,"
        " n_ifr_unscored, n_ifr_not_applicable"
    )
    strategies = table(
        published.home, f"select {shared} from codeif_strategies where level = 'all' order by all"
    )
    slots = (
        f"select {shared} from codeif_turns where level = 'all' and axis = 'strategy_slot' order "
        "by all"
    )
    assert strategies == table(published.home, slots)
    assert len(strategies) == 4 + 4 + 1


def test_codeif_strategies_intervals_take_problems_as_clusters(published: SmallLake) -> None:
    [interval] = table(
        published.home,
        (
            "select ia_low, ia_high from codeif_strategies where run_id = $run and level = 'all' "
            "and instruction_id = 'base'"
        ),
        run=published.alpha_1.run_id,
    )
    assert interval == wilson(2, 3)


RESULT_TABLES = (
    *(
        "scores",
        "test_verdicts",
        "pool_turn",
        "pool_dialog",
        "pool_dataset",
        "leaderboard",
        "costs",
    ),
    *("codeif_turns", "codeif_strategies"),
)


@pytest.mark.slow
def test_every_result_table_says_which_runs_were_not_isolated(
    lake: SmallLake, codeif_marts: Marts
) -> None:
    bare = Run(lake.home, ALPHA, samples=1, sandbox="none")
    lake.write_simple(bare)
    publish(lake.home, marts=codeif_marts)
    for name in RESULT_TABLES:
        rows = table(lake.home, f"select distinct run_id, sandbox, isolated from {name}")
        isolated = [
            (run.run_id, "bubblewrap", True) for run in (lake.alpha_2, lake.alpha_1, lake.beta)
        ]
        assert sorted(rows) == sorted([*isolated, (bare.run_id, "none", False)]), name


@pytest.mark.slow
def test_a_mart_of_others_is_kept_up_to_date_without_being_given_again(
    lake: SmallLake, tmp_path: Path
) -> None:
    mart = tmp_path / "codeif_verdicts.sql"
    mart.write_text(
        "-- One row per run x outcome.\nselect run_id, benchmark, model, outcome, count(*) "
        "as n from test_verdicts\n"
        "semi join changed_runs using (run_id) group by all; "
    )
    publish(lake.home, marts=(mart,))
    lake.write_simple(lake.gamma)
    publish(lake.home)
    rows = table(
        lake.home,
        "select outcome, n from codeif_verdicts where run_id = $run",
        run=lake.gamma.run_id,
    )
    assert rows == [("passed", 3)]


@pytest.mark.slow
def test_a_changed_mart_is_made_anew_for_all_runs(lake: SmallLake, tmp_path: Path) -> None:
    mart = tmp_path / "codeif_count.sql"
    for wanted in ("count(*)", "count(distinct episode_id)"):
        mart.write_text(
            f"-- One row per run.\nselect run_id, {wanted} as n from scores group by run_id"
        )
        publish(lake.home, marts=(mart,))
    rows = table(
        lake.home, "select n from codeif_count where run_id = $run", run=lake.alpha_2.run_id
    )
    assert rows == [(6,)]
    assert len(table(lake.home, "select n from codeif_count")) == 3


@pytest.mark.slow
def test_a_broken_mart_publishes_nothing_and_is_named(lake: SmallLake, tmp_path: Path) -> None:
    mart = tmp_path / "codeif_wrong.sql"
    mart.write_text("-- One row per run.\nselect run_id, no_such_column from scores")
    with pytest.raises(ParleyError, match=r"mart 'codeif_wrong'.*no_such_column"):
        publish(lake.home, marts=(mart,))
    assert not (lake.home / "warehouse.duckdb").exists()


@pytest.mark.slow
def test_a_mart_that_lacks_a_published_run_publishes_nothing(
    lake: SmallLake, tmp_path: Path
) -> None:
    mart = tmp_path / "codeif_partial.sql"
    mart.write_text("-- One row per run.\nselect run_id from runs where model = 'recorded:beta'")
    with pytest.raises(ParleyError, match="mart codeif_partial has no rows of 2 published runs"):
        publish(lake.home, marts=(mart,))
    assert sorted(path.name for path in lake.home.iterdir()) == ["lake", "locks"]


@pytest.mark.parametrize("name", ["scores.sql", "leaderboard.sql", "Bad-Name.sql"])
def test_a_mart_cannot_take_the_name_of_a_table(lake: SmallLake, tmp_path: Path, name: str) -> None:
    mart = tmp_path / name
    mart.write_text("-- One row per run.\nselect run_id from runs")
    with pytest.raises(ConfigError, match="mart"):
        publish(lake.home, marts=(mart,))
