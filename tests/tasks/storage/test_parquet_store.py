from pathlib import Path

import pytest

from schemas.errors import SchemaMismatch
from schemas.lake.records import RunEpisode
from tasks.storage.parquet_store import Lake

KEYS = {"benchmark": "b", "model": "openai:org/name", "run_id": "r1"}


def row(episode: str) -> RunEpisode:
    return RunEpisode(
        run_id="r1",
        benchmark="b",
        model="openai:org/name",
        episode_id=episode,
        problem_id="p",
        sample=0,
    )


def test_a_part_is_read_back_and_its_folder_names_are_quoted(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    path = lake.write_part("run_episodes", [row("e1"), row("e2")], "x", **KEYS)
    assert (
        path.relative_to(tmp_path).as_posix()
        == "run_episodes/benchmark=b/model=openai%3Aorg%2Fname/run=r1/part-x.parquet"
    )
    assert lake.read("run_episodes", RunEpisode, **KEYS) == [row("e1"), row("e2")]
    assert lake.read("run_episodes", RunEpisode, benchmark="b") == [row("e1"), row("e2")]


def test_names_that_would_leave_the_lake_stay_in_it(tmp_path: Path) -> None:
    path = Lake(tmp_path / "lake").write_part(
        "run_episodes", [], "x", **{**KEYS, "model": "../../../../etc"}
    )
    assert (tmp_path / "lake") in path.resolve().parents


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with pytest.raises(TypeError):
        # no row: so that writing fails
        lake.write_part("run_episodes", ["not a row"], "x", **KEYS)  # type: ignore[list-item]
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_leftovers_of_killed_writers_are_never_read_and_are_removed(tmp_path: Path) -> None:
    lake = Lake(tmp_path, fsync=True)
    lake.write_part("run_episodes", [row("e1")], "a", **KEYS)
    torn = lake.folder("run_episodes", **KEYS) / ".writing-1-ab"
    torn.write_bytes(b"PAR1")
    assert len(lake.read("run_episodes", RunEpisode, **KEYS)) == 1
    lake.remove_leftovers("run_episodes", **KEYS)
    assert not torn.exists()


def test_keep_only_removes_stale_parts(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for name in ("a", "b"):
        lake.write_part("run_episodes", [row(name)], name, **KEYS)
    lake.keep_only("run_episodes", ["b"], **KEYS)
    assert [r.episode_id for r in lake.read("run_episodes", RunEpisode, **KEYS)] == ["b"]


def test_a_truncated_part_is_named(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    path = lake.write_part("run_episodes", [row("e1")], "a", **KEYS)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SchemaMismatch, match=r"part-a\.parquet.*Move it away"):
        lake.read("run_episodes", RunEpisode, **KEYS)


def test_a_part_of_another_table_is_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    path = lake.write_part("run_episodes", [row("e1")], "a", **KEYS)
    with pytest.raises(SchemaMismatch, match="run_episodes"):
        lake.read_arrow("scores", [path])


def test_a_partition_key_after_a_gap_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="partitioned by"):
        Lake(tmp_path).folder("scores", model="m")
