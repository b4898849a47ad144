"""A home whose lake lies in an object store: parts, journal and marks, where driver and workers
share no folder.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.dialog import Role
from schemas.episode import Step
from schemas.errors import ServerUnavailable
from schemas.lake.records import RunEpisode
from tasks.storage.home import Home, find_home
from tasks.storage.journaling import segments as journal_segments
from tasks.storage.journaling.dialogue_calls import DIALOGUE_CALLS, read_unfinished
from tasks.storage.journaling.leases import LeaseLost, lease_shard, shard_attempt
from tasks.storage.journaling.segments import ShippedSegments, read_segments, remove_segments
from tasks.storage.paid_calls import Calls
from tasks.storage.parquet_store import Lake
from tests.tasks.storage.test_dialogue_calls import player
from tests.tasks.storage.test_parquet_store import KEYS, row
from warehouse.lake import list_lake, read_part
from warehouse.object_path import ObjectPath, object_store

URL = "memory://bucket/lake"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    yield Home.at(tmp_path / "home", URL)
    object_store(URL).remove_below()


@pytest.fixture
def store(home: Home) -> ObjectPath:
    assert isinstance(home.lake, ObjectPath)
    return home.lake


def step(turn: int) -> Step:
    return Step(turn=turn, role=Role.ASSISTANT, content=f"answer {turn}", n_calls=1)


def test_the_variable_says_where_the_lake_is(tmp_path: Path) -> None:
    assert find_home(environ={"PARLEY_HOME": str(tmp_path)}).lake == tmp_path / "lake"
    elsewhere = find_home(
        environ={"PARLEY_HOME": str(tmp_path), "PARLEY_LAKE": str(tmp_path / "far")}
    )
    assert (elsewhere.lake, elsewhere.journal("r")) == (
        tmp_path / "far",
        tmp_path / "journal" / "r",
    )
    stored = find_home(environ={"PARLEY_HOME": str(tmp_path), "PARLEY_LAKE": URL})
    assert (str(stored.lake), str(stored.journal("r"))) == (
        "memory:///bucket/lake",
        "memory:///bucket/lake/journal/r",
    )
    assert stored.warehouse == tmp_path / "warehouse.duckdb"


def test_parts_are_written_listed_and_read_alike(home: Home, tmp_path: Path) -> None:
    lakes = Lake(home.lake), Lake(tmp_path / "lake")
    for lake in lakes:
        for name in ("a", "b", "c"):
            lake.write_part("run_episodes", [row(name)], name, **KEYS)
        lake.keep_only("run_episodes", ["a", "b"], **KEYS)
        lake.remove_leftovers("run_episodes", **KEYS)
        assert [r.episode_id for r in lake.read("run_episodes", RunEpisode, **KEYS)] == ["a", "b"]
        assert lake.is_whole("run_episodes", lake.folder("run_episodes", **KEYS) / "part-a.parquet")
        assert not lake.is_whole(
            "run_episodes", lake.folder("run_episodes", **KEYS) / "part-c.parquet"
        )
    stored, local = (list_lake(lake.root)["run_episodes"] for lake in lakes)
    assert stored.keys() == local.keys()
    for folder, partition in local.items():
        assert [(part.name, part.size) for part in stored[folder].parts] == [
            (part.name, part.size) for part in partition.parts
        ]
        for part in partition.parts:
            assert read_part(home.lake, partition, part).equals(
                read_part(tmp_path / "lake", partition, part)
            )


def test_a_part_that_was_replaced_under_its_name_is_seen_to_be_another(home: Home) -> None:
    lake = Lake(home.lake)
    lake.write_part("run_episodes", [row("e1")], "members", **KEYS)
    before = list_lake(lake.root)
    assert list_lake(lake.root) == before
    lake.write_part("run_episodes", [row("e2")], "members", **KEYS)
    assert list_lake(lake.root) != before


def test_steps_are_shipped_within_seconds_and_at_the_end(
    home: Home, store: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_segments, "SHIP_EVERY_S", 0.05)
    calls = Calls(home.journal("r"), DIALOGUE_CALLS, remembers=False)
    playing = player(calls, "e")
    playing.add(step(1), is_paid=True)
    deadline = time.monotonic() + 30
    while not read_unfinished(home.journal("r")):
        assert time.monotonic() < deadline, "nothing was shipped"
        time.sleep(0.01)
    monkeypatch.setattr(journal_segments, "SHIP_EVERY_S", 3600)
    playing.add(step(2), is_paid=True)
    calls.close()
    assert [kept.turn for kept in read_unfinished(home.journal("r"))["e"].steps] == [1, 2]
    assert not any(thread.name == "parley-shipping" for thread in threading.enumerate())
    playing.add(step(3), is_paid=True)
    calls.close()
    assert len(read_unfinished(home.journal("r"))["e"].steps) == 3
    remove_segments(home.journal("r"))
    assert not list(store.rglob("*.jsonl"))


def test_rows_wait_for_a_store_that_fails_and_their_writer_hears_of_it(
    home: Home, store: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_segments, "SHIP_EVERY_S", 3600)
    segments = ShippedSegments(store / "log")
    segments.write({"row": 1})
    with monkeypatch.context() as patch:
        patch.setattr(ObjectPath, "write_bytes", _fails)
        with pytest.raises(ServerUnavailable):
            segments.flush()
        with pytest.raises(ServerUnavailable):
            segments.write({"row": 2})
    segments.flush()
    segments.write({"row": 3})
    segments.close()
    assert list(read_segments(store / "log")) == [{"row": 1}, {"row": 3}]


def _fails(*_: object) -> int:
    raise ServerUnavailable("no answer")


def test_nothing_is_shipped_for_a_shard_that_was_lost(
    home: Home, store: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_segments, "SHIP_EVERY_S", 3600)
    segments = ShippedSegments(store / "log")
    tries = home.tries("r")
    with shard_attempt(tries, "night-0"):
        lost, kept = (lease_shard(tries / "night-0", name, over=True) for name in ("x", "y"))
        segments.write({"of": "lost"}, lease=lost)
        segments.write({"of": "kept"}, lease=kept)
        lease_shard(tries / "night-0", "x", over=True)
        segments.close()
        with pytest.raises(LeaseLost):
            lost.glance()
        kept.glance()
    assert list(read_segments(store / "log")) == [{"of": "kept"}]
