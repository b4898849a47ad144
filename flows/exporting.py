"""What a run holds, as files for others."""

from collections.abc import Iterator
from pathlib import Path

from schemas.dialog import Role
from schemas.errors import UsageError
from schemas.run import RunEpisode
from tasks.benchmarks.contract import RecordedAnswer
from tasks.language.recorded_model import write_recording
from tasks.planning.plan import find_run
from tasks.storage.home import Home
from tasks.storage.owed import read_episodes
from tasks.storage.parquet_store import Lake


def export_recording(home: Home, run_id: str, out: Path) -> int:
    """Write all answers of a run's subject as a recording; returns how many.

    Raises:
        UsageError: no such run, or one without any answer.
    """
    lake = Lake(home.lake)
    record = find_run(lake, run_id)
    members = lake.read("run_episodes", RunEpisode, benchmark=record.benchmark, model=record.model, run_id=record.run_id)
    episodes = read_episodes(lake, record.benchmark, record.model, [m.episode_id for m in members])
    if not episodes:
        raise UsageError(f"run {record.run_id} holds no answers yet")

    def answers() -> Iterator[RecordedAnswer]:
        for member in members:
            for step in episodes[member.episode_id].steps:
                if step.role is Role.ASSISTANT:
                    yield RecordedAnswer(member.problem_id, step.turn, step.content, member.sample)

    return write_recording(out, answers())
