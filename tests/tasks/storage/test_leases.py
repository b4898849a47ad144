from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.storage.journaling.leases import LeaseLost, lease_shard, shard_attempt
from warehouse.object_path import object_store


@pytest.fixture(params=["folder", "store"])
def tries(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    if request.param == "folder":
        yield tmp_path / "run"
        return
    store = object_store("memory://bucket/tries")
    yield store / "run"
    store.remove_below()


def test_a_shard_is_taken_once_in_each_try(tries: Path) -> None:
    with shard_attempt(tries, "night-0"):
        lease_shard(tries / "night-0", "x").check()
        with pytest.raises(LeaseLost, match="begun by another worker"):
            lease_shard(tries / "night-0", "x")
    with shard_attempt(tries, "night-1"):
        lease_shard(tries / "night-1", "x").check()


def test_the_holder_of_a_try_that_is_over_may_not_write(tries: Path) -> None:
    with shard_attempt(tries, "night-0"):
        hold = lease_shard(tries / "night-0", "x")
    with pytest.raises(LeaseLost, match="its attempt has ended"):
        hold.check()
    with pytest.raises(LeaseLost, match="an attempt that has ended"):
        lease_shard(tries / "night-0", "y")
    assert not tries.is_dir()


def test_the_next_try_ends_one_whose_driver_was_killed(tries: Path) -> None:
    killed = shard_attempt(tries, "night-0")
    killed.__enter__()
    hold = lease_shard(tries / "night-0", "x")
    hold.check()
    with shard_attempt(tries, "night-1"):
        with pytest.raises(LeaseLost):
            hold.check()


def test_a_shard_that_may_be_taken_over_belongs_to_the_last_who_did(tries: Path) -> None:
    with shard_attempt(tries, "night-0"):
        first = lease_shard(tries / "night-0", "x", over=True)
        second = lease_shard(tries / "night-0", "x", over=True)
        second.check()
        with pytest.raises(LeaseLost):
            first.check()
        if isinstance(tries, Path):
            assert [path.name for path in (tries / "night-0").iterdir()] == ["x"]
