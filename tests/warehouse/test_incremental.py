"""Incremental publication: it reads what changed only, and equals a file made anew."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.warehouse.conftest import Marts
from tests.warehouse.digests import table_digest
from tests.warehouse.small_lake import SmallLake, first_samples
from tests.warehouse.small_run import DIGESTS, IA
from warehouse.connect import connect, query, warehouse_path
from warehouse.publication.publish import publish


def rows(home: Path, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
    return query(home, sql, parameters or None)[1]


def contents(home: Path) -> dict[str, str]:
    """Digest of every table and view."""
    connection = connect(home)
    try:
        names = connection.execute(
            "select table_name from information_schema.tables where table_catalog = 'warehouse'"
        ).fetchall()
        return {name: table_digest(connection, name) for (name,) in names}
    finally:
        connection.close()


def differing_from_rebuild(home: Path, scratch: Path, marts: Marts) -> list[str]:
    """Tables of which the published file does not equal one made of the same lake alone."""
    scratch.mkdir(exist_ok=True)
    if not (scratch / "lake").exists():
        (scratch / "lake").symlink_to(home / "lake")
    publish(scratch, marts=marts, rebuild=True)
    ours, theirs = contents(home), contents(scratch)
    return sorted(
        name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)
    )


def test_an_up_to_date_file_is_left_alone(published: SmallLake, codeif_marts: Marts) -> None:
    before = warehouse_path(published.home).stat()
    report = publish(published.home, marts=codeif_marts)
    assert (report.replaced, report.n_files, report.n_runs_loaded) == (False, 0, 0)
    assert warehouse_path(published.home).stat().st_ino == before.st_ino
    assert not list(published.home.glob("*.next*"))


@pytest.mark.slow
@pytest.mark.long
def test_every_step_of_a_lakes_life_equals_a_rebuild(tmp_path: Path, codeif_marts: Marts) -> None:
    lake = SmallLake(tmp_path / "home")
    gamma, beta, alpha = lake.gamma, lake.beta, lake.alpha_2

    def first_run() -> None:
        lake.write_dataset()
        lake.write_models()
        lake.write_simple(beta)

    def run_without_its_episodes() -> None:
        lake.write_alpha_1()

    def run_that_paid_for_them() -> None:
        lake.write_alpha_2()
        lake.write_night((lake.alpha_1, alpha))

    def withheld_run() -> None:
        lake.write_simple(gamma, "withheld")

    def withheld_run_finishes() -> None:
        gamma.write_record("finished", finished_at="2026-01-05T00:00:00Z")

    def finished_run_is_worked_on_again() -> None:
        beta.write_record("incomplete", finished_at="2026-01-06T00:00:00Z")

    def another_attempt_at_a_shared_episode() -> None:
        alpha.write("episodes", [alpha.episode("P1", 0, attempt=3)], "shard-9")

    def scores_are_made_anew() -> None:
        (
            tmp_path
            / "home/lake/scores/benchmark=codeif/model=openai%3Aalpha"
            / f"run={alpha.run_id}/part-1.parquet"
        ).unlink()
        alpha.write("scores", [alpha.score("P1", 0, 1, IA, 0.25, version=2)], "2")
        alpha.write_record(finished_at="2026-01-07T00:00:00Z")

    def edited_dataset() -> None:
        lake.write_dataset("e" * 32, {**DIGESTS, "P3": "f" * 32}, level="L3")

    def new_price() -> None:
        lake.write_models(alpha_input=3.0)

    def run_is_removed() -> None:
        for folder in (tmp_path / "home/lake").rglob(f"run={gamma.run_id}"):
            shutil.rmtree(folder)

    for step in (
        first_run,
        run_without_its_episodes,
        run_that_paid_for_them,
        withheld_run,
        withheld_run_finishes,
        finished_run_is_worked_on_again,
        another_attempt_at_a_shared_episode,
        scores_are_made_anew,
        edited_dataset,
        new_price,
        run_is_removed,
    ):
        step()
        report = publish(lake.home, marts=codeif_marts)
        assert report.replaced, step.__name__
        assert report.rebuilt_because is None
        assert differing_from_rebuild(lake.home, tmp_path / "scratch", codeif_marts) == [], (
            step.__name__
        )


@pytest.mark.slow
def test_an_incremental_publication_reads_no_parquet_of_old_runs(
    published: SmallLake, codeif_marts: Marts
) -> None:
    for part in (published.home / "lake").rglob("*.parquet"):
        found = part.stat()
        part.write_bytes(b"x" * found.st_size)
        os.utime(part, ns=(found.st_atime_ns, found.st_mtime_ns))
    published.write_simple(published.gamma)
    report = publish(published.home, marts=codeif_marts)
    assert report.n_files == len(
        list((published.home / "lake").rglob(f"run={published.gamma.run_id}/*.parquet"))
    )
    assert report.n_runs_loaded == 1
    assert rows(published.home, "select count(distinct run_id) from leaderboard") == [(4,)]


@pytest.mark.slow
def test_only_the_named_runs_are_brought_up_to_date(published: SmallLake) -> None:
    published.write_simple(published.gamma)
    published.beta.write_record("incomplete")
    publish(published.home, run_ids=[published.gamma.run_id])
    assert rows(published.home, "select count(distinct run_id) from leaderboard") == [(4,)]
    publish(published.home)
    assert rows(published.home, "select count(distinct run_id) from leaderboard") == [(3,)]


def test_a_rewritten_models_part_of_equal_content_touches_no_run(
    published: SmallLake, codeif_marts: Marts
) -> None:
    published.write_models()
    assert publish(published.home, marts=codeif_marts).n_runs_loaded == 0


@pytest.mark.slow
def test_a_file_of_another_version_is_made_anew(published: SmallLake) -> None:
    import duckdb

    connection = duckdb.connect(str(warehouse_path(published.home)))
    connection.execute("update _warehouse_version set version = '0-old'")
    connection.execute("delete from score_rows")
    connection.close()
    report = publish(published.home, run_ids=[published.beta.run_id])
    assert report.rebuilt_because is not None
    assert "0-old" in report.rebuilt_because
    assert report.n_runs_loaded == 3
    assert rows(published.home, "select count(distinct run_id) from scores") == [(3,)]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["garbage", "cut", "log", "empty"])
def test_a_damaged_file_is_made_anew(published: SmallLake, damage: str) -> None:
    path = warehouse_path(published.home)
    if damage == "garbage":
        path.write_bytes(b"no database" * 5000)
    elif damage == "cut":
        os.truncate(path, 5000)
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.with_name("warehouse.duckdb.wal").write_bytes(b"what another program left")
    report = publish(published.home)
    assert report.rebuilt_because
    assert rows(published.home, "select count(distinct run_id) from scores") == [(3,)]
    assert sorted(p.name for p in published.home.glob("warehouse*")) == ["warehouse.duckdb"]


@pytest.mark.slow
def test_a_run_with_a_torn_part_is_withheld_and_comes_back_when_it_is_mended(
    published: SmallLake, codeif_marts: Marts
) -> None:
    before = contents(published.home)
    torn = published.alpha_2
    path = torn.write("scores", torn.scores(first_samples()), "torn")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    [withheld] = publish(published.home, marts=codeif_marts).withheld
    assert withheld.run_id == torn.run_id
    assert f"{path} cannot be read" in withheld.reason
    assert rows(published.home, "select count(distinct run_id) from leaderboard") == [(2,)]
    assert not list(published.home.glob("*.next*"))
    path.unlink()
    assert publish(published.home, marts=codeif_marts).withheld == ()
    assert contents(published.home) == before
