from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.storage.journaling.leases import LeaseLost, lease_shard, open_leases
from warehouse.object_path import object_store


@pytest.fixture(params=["folder", "store"])
def leases(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    if request.param == "folder":
        yield tmp_path / "run"
        return
    store = object_store("memory://bucket/leases")
    yield store / "run"
    store.remove_below()


def test_a_shard_is_taken_once_in_each_attempt(leases: Path) -> None:
    with open_leases(leases, "night-0"):
        lease_shard(leases / "night-0", "x").check()
        with pytest.raises(LeaseLost, match="begun by another worker"):
            lease_shard(leases / "night-0", "x")
    with open_leases(leases, "night-1"):
        lease_shard(leases / "night-1", "x").check()


def test_the_holder_of_an_ended_attempt_may_not_write(leases: Path) -> None:
    with open_leases(leases, "night-0"):
        lease = lease_shard(leases / "night-0", "x")
    with pytest.raises(LeaseLost, match="its attempt has ended"):
        lease.check()
    with pytest.raises(LeaseLost, match="an attempt that has ended"):
        lease_shard(leases / "night-0", "y")
    assert not leases.is_dir()


def test_the_next_attempt_ends_one_whose_driver_was_killed(leases: Path) -> None:
    killed = open_leases(leases, "night-0")
    killed.__enter__()
    lease = lease_shard(leases / "night-0", "x")
    lease.check()
    with open_leases(leases, "night-1"):
        with pytest.raises(LeaseLost):
            lease.check()


def test_a_shard_that_may_be_taken_over_belongs_to_the_last_who_did(leases: Path) -> None:
    with open_leases(leases, "night-0"):
        first = lease_shard(leases / "night-0", "x", over=True)
        second = lease_shard(leases / "night-0", "x", over=True)
        second.check()
        with pytest.raises(LeaseLost):
            first.check()
        if isinstance(leases, Path):
            assert [path.name for path in (leases / "night-0").iterdir()] == ["x"]
