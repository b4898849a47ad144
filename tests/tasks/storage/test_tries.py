from pathlib import Path

import pytest

from tasks.storage.tries import ShardTaken, shard_try, take_shard


def test_a_shard_is_taken_once_in_each_try(tmp_path: Path) -> None:
    with shard_try(tmp_path / "run", "night-0"):
        take_shard(tmp_path / "run" / "night-0", "x").check()
        with pytest.raises(ShardTaken, match="begun by another worker"):
            take_shard(tmp_path / "run" / "night-0", "x")
    with shard_try(tmp_path / "run", "night-1"):
        take_shard(tmp_path / "run" / "night-1", "x").check()


def test_the_holder_of_a_try_that_is_over_may_not_write(tmp_path: Path) -> None:
    with shard_try(tmp_path / "run", "night-0"):
        hold = take_shard(tmp_path / "run" / "night-0", "x")
    with pytest.raises(ShardTaken, match="its try is over"):
        hold.check()
    with pytest.raises(ShardTaken, match="a try that is over"):
        take_shard(tmp_path / "run" / "night-0", "y")
    assert not (tmp_path / "run").exists()


def test_the_next_try_ends_one_whose_driver_was_killed(tmp_path: Path) -> None:
    killed = shard_try(tmp_path / "run", "night-0")
    killed.__enter__()
    hold = take_shard(tmp_path / "run" / "night-0", "x")
    hold.check()
    with shard_try(tmp_path / "run", "night-1"):
        with pytest.raises(ShardTaken):
            hold.check()


def test_a_shard_that_may_be_taken_over_belongs_to_the_last_who_did(tmp_path: Path) -> None:
    with shard_try(tmp_path / "run", "night-0"):
        first = take_shard(tmp_path / "run" / "night-0", "x", over=True)
        second = take_shard(tmp_path / "run" / "night-0", "x", over=True)
        second.check()
        with pytest.raises(ShardTaken):
            first.check()
        assert [path.name for path in (tmp_path / "run" / "night-0").iterdir()] == ["x"]
