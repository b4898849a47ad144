"""Publication: what is loaded, what is not, and what is refused."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from schemas.episode import StopReason
from schemas.errors import SchemaMismatch, UnknownName, UsageError
from schemas.lake.rows import to_arrow
from schemas.lake.tables import LOADED, TABLES
from tests.warehouse.conftest import Marts
from tests.warehouse.small_lake import SmallLake, first_samples
from tests.warehouse.small_run import DIGESTS, IA, quality_check
from warehouse.connect import query, warehouse_path
from warehouse.publication.publish import publish


def rows(home: Path, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
    return query(home, sql, parameters or None)[1]


@pytest.mark.slow
def test_a_withheld_run_shows_its_row_and_checks_only(published: SmallLake) -> None:
    run = published.gamma.run_id
    for table, count in {
        "runs": 1,
        "quality_checks": 1,
        **dict.fromkeys(("run_episodes", "episodes", "turns", "test_verdicts", "scores"), 0),
        **dict.fromkeys(
            (
                "leaderboard",
                "pool_turn",
                "pool_dialog",
                "pool_dataset",
                "costs",
                "codeif_turns",
                "codeif_strategies",
            ),
            0,
        ),
    }.items():
        assert rows(
            published.home, f"select count(*) from {table} where run_id = $run", run=run
        ) == [(count,)], table


@pytest.mark.slow
def test_a_withheld_run_appears_when_it_finishes_and_goes_when_it_grows(
    published: SmallLake, codeif_marts: Marts
) -> None:
    run = published.gamma
    shown = "select count(*) from leaderboard where run_id = $run"
    run.write_record("finished", finished_at="2026-01-04T00:00:00Z")
    run.write("quality_checks", [quality_check(run)], "checks")
    report = publish(published.home, run_ids=[run.run_id], marts=codeif_marts)
    assert (report.n_runs_loaded, report.n_runs_published, report.n_runs_withheld) == (1, 4, 0)
    assert rows(published.home, shown, run=run.run_id) == [(1,)]
    run.write_record("incomplete", finished_at="2026-01-05T00:00:00Z")
    publish(published.home, run_ids=[run.run_id], marts=codeif_marts)
    assert rows(published.home, shown, run=run.run_id) == [(0,)]
    assert rows(published.home, "select status from runs where run_id = $run", run=run.run_id) == [
        ("incomplete",)
    ]


def test_runs_that_share_episodes_each_see_all_their_turns(published: SmallLake) -> None:
    counts = rows(
        published.home,
        (
            "select run_id, count(*) from turns join episodes using (run_id, episode_id) where "
            "role = 'assistant' group by run_id"
        ),
    )
    assert dict(counts) == {
        published.alpha_2.run_id: 13,
        published.alpha_1.run_id: 7,
        published.beta.run_id: 7,
    }
    assert rows(
        published.home,
        "select distinct paid_by_run_id from episodes where run_id = $run",
        run=published.alpha_1.run_id,
    ) == [(published.alpha_2.run_id,)]


def test_the_final_attempt_counts_and_then_the_highest(published: SmallLake) -> None:
    found = rows(
        published.home,
        (
            "select problem_id, sample, attempt, stop_reason from episodes where run_id = $run "
            "order by problem_id, sample"
        ),
        run=published.alpha_2.run_id,
    )
    assert found == [
        ("P1", 0, 2, "finished"),
        ("P1", 1, 1, "finished"),
        ("P2", 0, 1, "finished"),
        ("P2", 1, 1, "subject_error"),
        ("P3", 0, 1, "finished"),
        ("P3", 1, 1, "finished"),
    ]


def test_turns_come_in_the_order_they_were_said(published: SmallLake) -> None:
    found = rows(
        published.home,
        (
            "select position, turn, role, content from turns where run_id = $run and problem_id "
            "= 'P2' order by position"
        ),
        run=published.beta.run_id,
    )
    assert found == [
        (1, 1, "user", "P2: base"),
        (2, 1, "assistant", "answer 1 of attempt 1"),
        (3, 2, "user", "P2: Exception Handling"),
        (4, 2, "assistant", "answer 2 of attempt 1"),
    ]


@pytest.mark.slow
def test_editions_of_a_dataset_hold_a_shared_row_once(published: SmallLake) -> None:
    published.write_dataset("e" * 32, {**DIGESTS, "P3": "f" * 32})
    publish(published.home)
    assert rows(
        published.home, "select problem_id, count(*) from problems group by all order by 1"
    ) == [
        ("P1", 1),
        ("P2", 1),
        ("P3", 2),
    ]
    assert rows(published.home, "select count(*) from quarantine") == [(1,)]


@pytest.mark.slow
def test_rows_that_a_superseded_part_repeats_count_once(
    lake: SmallLake, codeif_marts: Marts
) -> None:
    """A run killed between its new scores and the removal of the old ones leaves both."""
    run = lake.alpha_2
    run.write_record(n_unscored=4)
    run.write(
        "scores", [run.score("P1", 1, 3, IA, 1), run.score("P1", 0, 1, IA, 0, version=2)], "2"
    )
    report = publish(lake.home, marts=codeif_marts)
    assert report.warnings == ("scores: 2 rows repeated by superseded parts were left out",)
    [(n, n_unscored, mean)] = rows(
        lake.home,
        "select n, n_unscored, mean from leaderboard where run_id = $run and metric = $metric",
        run=run.run_id,
        metric=IA,
    )
    assert (n, n_unscored, mean) == (13, 1, pytest.approx(9 / 13))


@pytest.mark.slow
def test_runs_with_gaps_are_withheld_and_the_others_published(lake: SmallLake) -> None:
    beta, alpha = lake.beta, lake.alpha_1
    for part in (lake.home / "lake").rglob(f"run={beta.run_id}/*.parquet"):
        if part.is_relative_to(lake.home / "lake" / "scores"):
            part.unlink()
    alpha.write_contained([("P1", 0), ("P1", 7)])
    alpha.write_record(n_episodes=2)
    of_one = {place: v for place, v in first_samples().items() if place[0] == "P1"}
    alpha.write("scores", alpha.scores(of_one))
    alpha.write("test_verdicts", alpha.verdicts(of_one))
    report = publish(lake.home)
    assert {one.run_id: one.reason for one in report.withheld} == {
        beta.run_id: "rows_present: has no scores, so that no mart shows it",
        alpha.run_id: (
            "episodes_exist: names 1 episodes that the lake does not hold, the first being "
        )
        + alpha.episode_id("P1", 7),
    }
    assert [warning.split(":")[0] for warning in report.warnings] == [
        f"run {r.run_id} is withheld" for r in report.withheld
    ]
    assert rows(lake.home, "select distinct run_id from leaderboard") == [(lake.alpha_2.run_id,)]
    assert rows(lake.home, "select status from runs where run_id = $run", run=beta.run_id) == [
        ("withheld",)
    ]


@pytest.mark.slow
def test_a_part_of_another_schema_version_is_named(lake: SmallLake) -> None:
    run = lake.beta
    table = to_arrow("episodes", [run.episode("P1", 0, stop=StopReason.FINISHED)])
    path = run.write("episodes", [])
    pq.write_table(
        table.replace_schema_metadata({b"parley.table": b"episodes", b"parley.version": b"99"}),
        path,
    )
    report = publish(lake.home)
    assert [one.run_id for one in report.withheld] == [run.run_id]
    assert f"{path} holds table 'episodes' of schema version 99" in "".join(report.warnings)


@pytest.mark.slow
def test_a_lake_of_another_schema_version_is_refused_and_the_old_file_stays(
    published: SmallLake,
) -> None:
    before = warehouse_path(published.home).read_bytes()
    for path in (published.home / "lake" / "scores").rglob("*.parquet"):
        old = (
            pq.ParquetFile(path)
            .read()
            .replace_schema_metadata({b"parley.table": b"scores", b"parley.version": b"0"})
        )
        pq.write_table(old, path)
    with pytest.raises(SchemaMismatch, match=r"schema version 0.*parley publish --migrate"):
        publish(published.home, rebuild=True)
    assert warehouse_path(published.home).read_bytes() == before


@pytest.mark.slow
def test_a_part_in_the_wrong_folder_is_named(lake: SmallLake) -> None:
    run = lake.beta
    path = run.write("scores", [lake.alpha_2.score("P1", 0, 1, IA, 1)], "stray")
    [withheld] = publish(lake.home).withheld
    assert withheld.run_id == run.run_id
    assert f"{path} holds rows of" in withheld.reason


def test_an_unknown_run_and_a_missing_lake_are_usage_errors(
    lake: SmallLake, tmp_path: Path
) -> None:
    with pytest.raises(UnknownName, match="unknown run 'nonsense'"):
        publish(lake.home, run_ids=["nonsense"])
    with pytest.raises(UsageError, match="nothing to publish"):
        publish(tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.slow
def test_an_empty_lake_makes_an_empty_warehouse(tmp_path: Path, codeif_marts: Marts) -> None:
    (tmp_path / "lake").mkdir()
    publish(tmp_path, marts=codeif_marts)
    assert query(tmp_path, "select * from codeif_turns")[1] == []
    assert query(tmp_path, "select run_id, metric from leaderboard") == (("run_id", "metric"), [])


def test_every_column_of_the_lake_reaches_the_warehouse(published: SmallLake) -> None:
    columns: dict[str, set[str]] = {}
    for table, column in rows(
        published.home,
        (
            "select table_name, column_name from information_schema.columns where table_catalog "
            "= 'warehouse'"
        ),
    ):
        columns.setdefault(table, set()).add(column)
    for name, table in LOADED.items():
        fields = {field.name for field in table.schema} - {"steps"}
        assert fields <= columns[name], name
    steps = TABLES["episodes"].schema.field("steps").type.value_type
    assert {field.name for field in steps} - {"program", "programs", "feedback"} <= columns[
        "turns"
    ] | columns["steps"]
    assert {f"{field.name}_feedback" for field in steps.field("feedback").type} <= columns["turns"]
