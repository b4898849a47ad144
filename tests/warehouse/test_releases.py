"""A withheld run that a person released is published with that word, as long as its results are the
released ones.
"""

import getpass
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import UsageError
from schemas.lake.records import Release, results_digest
from tasks.planning.reporting.publishing import publish_to_warehouse, release
from tasks.storage.home import Home
from tests.flows.parley_command import parley
from tests.warehouse.conftest import Marts
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.test_incremental import contents, differing_from_rebuild
from warehouse.connect import query
from warehouse.publication.publish import publish

WORD = "the endpoint's outage hit one problem; the others stand"


def rows(home: Path, sql: str) -> list[tuple[Any, ...]]:
    return query(home, sql)[1]


@pytest.mark.slow
def test_a_released_run_is_published_with_the_word_and_so_is_it_from_scratch(
    published: SmallLake, tmp_path: Path
) -> None:
    run, home = published.gamma, published.home
    assert rows(home, f"select * from leaderboard where run_id = '{run.run_id}'") == []
    done = parley(home, "release", run.run_id[:10], "--because", WORD, "--json").json()
    assert (done["run_id"], done["published"], done["withheld_reason"]) == (
        run.run_id,
        True,
        "too many infra faults",
    )
    shown = f"select mean, n, released_because from leaderboard where run_id = '{run.run_id}'"
    assert rows(home, shown) == [(1.0, 3, WORD)]
    assert rows(
        home,
        f"select status, withheld_reason, released_because from runs where run_id = '{run.run_id}'",
    ) == [("finished", "too many infra faults", WORD)]
    assert rows(home, "select count(*) from leaderboard where released_because is not null") == [
        (1,)
    ]
    assert parley(home, "publish", "--rebuild").code == 0
    assert rows(home, shown) == [(1.0, 3, WORD)]
    [listed] = [
        one for one in parley(home, "list", "runs", "--json").json() if one["run_id"] == run.run_id
    ]
    assert (listed["status"], listed["withheld_reason"], listed["released_because"]) == (
        "finished",
        "too many infra faults",
        WORD,
    )


@pytest.mark.slow
def test_a_release_lapses_with_other_results_and_holds_for_equal_ones(
    published: SmallLake, codeif_marts: Marts
) -> None:
    run, home = published.gamma, published.home
    release(Home(home), run.run_id, WORD)
    status = f"select status, released_because from runs where run_id = '{run.run_id}'"
    assert rows(home, status) == [("finished", WORD)]
    run.write_record("withheld", finished_at="2026-02-02T00:00:00Z")
    publish(home, marts=codeif_marts)
    assert rows(home, status) == [("withheld", None)]
    assert rows(home, f"select count(*) from scores where run_id = '{run.run_id}'") == [(0,)]
    run.write_record("withheld")
    publish(home, marts=codeif_marts)
    assert rows(home, status) == [("finished", WORD)]


@pytest.mark.slow
def test_a_second_release_is_shown_everywhere_and_the_first_is_kept(
    published: SmallLake, tmp_path: Path
) -> None:
    run, home = published.gamma, published.home
    for reason in ("first reason", "second reason"):
        made = release(Home(home), run.run_id, reason).release
        assert made.released_by == getpass.getuser()
        for table in ("runs", "leaderboard"):
            assert rows(
                home, f"select distinct released_because from {table} where run_id = '{run.run_id}'"
            ) == [(reason,)]
    logged = f"select number, because from releases where run_id = '{run.run_id}' order by number"
    assert rows(home, logged) == [(1, "first reason"), (2, "second reason")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_releases_and_publications_ends_as_a_rebuild(
    published: SmallLake, tmp_path: Path, seed: int
) -> None:
    run, home, chance = published.gamma, published.home, random.Random(seed)

    def other_results() -> None:
        run.write_record(
            chance.choice(("withheld", "finished")),
            finished_at=f"2026-02-0{chance.randint(1, 4)}T00:00:00Z",
        )

    def word() -> None:
        with suppress(UsageError):  # the run is not withheld now
            release(Home(home), run.run_id, f"reason {chance.random()}")

    steps = (
        other_results,
        word,
        word,
        lambda: publish_to_warehouse(Home(home), [run.run_id]),
        lambda: publish_to_warehouse(Home(home), rebuild=True),
    )
    for _ in range(6):
        chance.choice(steps)()
        publish_to_warehouse(Home(home))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "lake").symlink_to(home / "lake")
    publish_to_warehouse(Home(scratch), rebuild=True)
    ours, theirs = contents(home), contents(scratch)
    assert [
        name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)
    ] == []


@pytest.mark.slow
def test_a_released_run_with_a_lost_file_is_withheld_all_the_same(published: SmallLake) -> None:
    run, home = published.gamma, published.home
    shutil.rmtree(
        home / "lake" / "scores" / "benchmark=codeif" / f"model={'openai%3Agamma%2F7b%3Dx'}"
    )
    done = parley(home, "release", run.run_id, "--because", WORD)
    assert (done.code, "has no scores" in done.err, "not published" in done.out) == (3, True, True)


@pytest.mark.slow
def test_a_taken_back_word_takes_the_run_back(
    published: SmallLake, codeif_marts: Marts, tmp_path: Path
) -> None:
    run, home = published.gamma, published.home
    word = Release(
        run_id=run.run_id,
        benchmark="codeif",
        model=run.subject.label,
        because=WORD,
        withheld_reason="",
        released_at="2026-01-03T00:00:00Z",
        results_digest=results_digest((), "2026-01-02T00:10:00Z"),
    )
    run.write("releases", [word])
    publish(home, marts=codeif_marts)
    assert rows(home, f"select status from runs where run_id = '{run.run_id}'") == [("finished",)]
    assert differing_from_rebuild(home, tmp_path / "scratch", codeif_marts) == []
    shutil.rmtree(home / "lake" / "releases")
    publish(home, marts=codeif_marts)
    assert rows(home, f"select status from runs where run_id = '{run.run_id}'") == [("withheld",)]
    assert differing_from_rebuild(home, tmp_path / "scratch", codeif_marts) == []


@pytest.mark.slow
def test_only_a_withheld_run_with_a_reason_is_released(published: SmallLake) -> None:
    home = Home(published.home)
    with pytest.raises(UsageError, match="passed its checks"):
        release(home, published.beta.run_id, WORD)
    with pytest.raises(UsageError, match="--because"):
        release(home, published.gamma.run_id, " ")
    published.gamma.write_record("incomplete")
    with pytest.raises(UsageError, match="is not finished"):
        release(home, published.gamma.run_id, WORD)
    assert not list((published.home / "lake").rglob("releases"))
