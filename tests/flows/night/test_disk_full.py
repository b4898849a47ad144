"""A full disk is named, costs nothing that was finished, and the same command goes on once there is
room.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.storage.journaling.dialogue_calls import read_unfinished
from tests.fixtures.model_server import ModelServer, model_server
from tests.flows.night.small_disk import SmallDisk, small_disk
from tests.flows.parley_command import SAMPLE, Done

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
IN_FLIGHT, N_TURNS = 4, 38


@pytest.fixture
def disk(tmp_path: Path, server_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    """Its commands use a standing Prefect server, whose database lies elsewhere."""
    monkeypatch.setenv("PREFECT_API_URL", server_url)
    with small_disk(tmp_path, megabytes=96) as made:
        yield made


def assert_named(done: Done, disk: SmallDisk, *what: str) -> None:
    """One line that says what, where and what to do; nothing half-written is left."""
    assert done.code == 1, f"{done.code}: {done.err}\n{done.out}"
    assert "Traceback" not in done.err, done.err
    said = [line for line in done.err.splitlines() if line.startswith("parley: ")]
    assert len(said) == 1, done.err
    assert "the disk is full" in said[0]
    assert any(one in said[0] for one in what), said
    assert str(disk.home) in said[0]
    assert " free" in said[0]
    assert "then type the same command again" in said[0]
    assert "sqlite" not in done.err.lower()
    assert not [path.name for path in disk.seen.rglob(".writing-*")]
    assert not [path.name for path in disk.seen.glob("warehouse.duckdb.next*")]


def kept_turns(disk: SmallDisk) -> int:
    """Answers in the journal."""
    folders = list((disk.seen / "journal").glob("*"))
    found = read_unfinished(folders[0]).values() if folders else ()
    return sum(step.role == "assistant" for unfinished in found for step in unfinished.steps)


def lake_files(disk: SmallDisk, *tables: str) -> dict[str, bytes]:
    return {
        str(p): p.read_bytes()
        for table in tables
        for p in (disk.seen / "lake" / table).rglob("part-*.parquet")
    }


def run_arguments(server: ModelServer) -> tuple[str, ...]:
    return (
        *SAMPLE,
        "--model",
        f"openai:mock@{server.base_url}",
        "--revision",
        "1",
        "--concurrency",
        str(IN_FLIGHT),
    )


def test_a_disk_full_at_start_stage_journal_shard_and_publish_loses_nothing(
    disk: SmallDisk,
) -> None:
    with model_server(latency_s=0.05) as server:
        run = run_arguments(server)
        disk.fill(but=2 * 2**20)
        assert_named(disk.parley(*run), disk, "16.0 MB needed")
        disk.make_room()

        assert_named(disk.parley(*run, fill_at="stage"), disk, "the table 'dialogs'")
        assert not lake_files(disk, "dialogs", "problems")
        disk.make_room()

        assert_named(disk.parley(*run, fill_at="journal", after=6), disk, "a turn")
        after_journal = kept_turns(disk)
        assert 0 < after_journal < N_TURNS
        disk.make_room()

        # another episode's turn may meet the full disk before the driver hears of the shard
        assert_named(disk.parley(*run, fill_at="shard"), disk, "the table 'episodes'", "a turn")
        assert kept_turns(disk) >= after_journal
        asked = sum(server.prompts.values())
        disk.make_room()

        assert_named(disk.parley(*run, fill_at="publish"), disk, "the new warehouse")
        episodes = lake_files(disk, "episodes", "test_verdicts", "scores")
        assert episodes
        assert asked <= sum(server.prompts.values()) <= N_TURNS + 2 * IN_FLIGHT
        disk.make_room()

        line = disk.parley(*run, "--json").json()
        assert (
            line["episodes"],
            line["owed"],
            line["n_infra"],
            line["model_calls"],
            line["published"],
        ) == (8, 0, 0, 0, True)
        assert lake_files(disk, "episodes", "test_verdicts", "scores") == episodes

        whole = (disk.seen / "warehouse.duckdb").read_bytes()
        assert_named(
            disk.parley("publish", "--rebuild", fill_at="publish"), disk, "the new warehouse"
        )
        assert (disk.seen / "warehouse.duckdb").read_bytes() == whole
        assert disk.parley(
            "sql", "SELECT count(*) n FROM turns WHERE role = 'assistant'", "--json"
        ).json() == [{"n": N_TURNS}]
