"""Answers to a task's turns, each a dialog of its own, can be exported and replayed."""

import asyncio
from pathlib import Path

import pytest

from flows.cli.exports.exporting import export_recording
from schemas.dialog import Dialog, Role
from schemas.episode import Episode, Step
from schemas.lake.records import RunEpisode, RunRecord
from schemas.run import Sampling
from tasks.benchmarks.convcode.log_files.logs import static_dialogs
from tasks.dialogue.chat_subject import ChatSubject
from tasks.dialogue.engine import Transcript
from tasks.language.recorded_model import RecordedModel, Recording, load_recording
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tests.tasks.benchmarks.convcode.live_runs import episode_of, record, spec, subject
from tests.tasks.benchmarks.convcode.logged import PROBLEMS, write_logs

RUN = spec("live[none]").model_copy(update={"setting": "static[f_c,f_e*,f_v*]"})
KEYS = {"benchmark": RUN.benchmark, "model": RUN.subject.label, "run_id": RUN.run_id}


def answer_to(dialog: Dialog) -> str:
    return f"answer to {dialog.dialog_id}"


def episode(dialog: Dialog) -> Episode:
    """The dialog, answered."""
    asking = Step(turn=1, role=Role.USER, content=dialog.turns[0].content or "")
    return episode_of(
        RUN,
        dialog,
        dialog.row_digest,
        (asking, Step(turn=1, role=Role.ASSISTANT, content=answer_to(dialog))),
    )


def asked(dialog: Dialog, recording: Recording) -> str:
    """What the recording answers to a dialog's one message."""
    problem = next(problem for problem in PROBLEMS if problem.problem_id == dialog.problem_id)
    participant = ChatSubject(RecordedModel(subject({}).identity, recording), Sampling())
    said = asyncio.run(
        participant.speak(Transcript(problem, dialog, 0, 0, 1, episode(dialog).steps[:1]))
    )
    assert isinstance(said, Step)
    return said.content


@pytest.fixture
def dialogs(tmp_path: Path) -> tuple[Dialog, ...]:
    return static_dialogs(PROBLEMS, write_logs(tmp_path / "logs"))


def test_an_exported_static_run_answers_each_turn_as_it_did(
    home: Path, dialogs: tuple[Dialog, ...], tmp_path: Path
) -> None:
    lake = Lake(Home.at(home).lake)
    lake.write_part("episodes", [episode(dialog) for dialog in dialogs], "1", **KEYS)
    members = [
        RunEpisode(**KEYS, episode_id=d.row_digest, problem_id=d.problem_id, sample=0)
        for d in dialogs
    ]
    lake.write_part("run_episodes", members, "1", **KEYS)
    lake.write_part("runs", [RunRecord.model_validate(record(RUN))], "1", **KEYS)
    out = tmp_path / "answers.jsonl"
    assert export_recording(Home.at(home), RUN.run_id, out) == len(dialogs) == 6
    recording = load_recording(out)
    assert [asked(dialog, recording) for dialog in dialogs] == [
        answer_to(dialog) for dialog in dialogs
    ]


def test_an_answer_may_be_recorded_for_a_problem_as_a_whole(dialogs: tuple[Dialog, ...]) -> None:
    own = dialogs[1]
    answers = {(problem.problem_id, 1, 0): "for all" for problem in PROBLEMS} | {
        (own.dialog_id, 1, 0): "its own"
    }
    recording = Recording(digest="d", answers=answers)
    assert [asked(dialog, recording) for dialog in dialogs[:3]] == ["for all", "its own", "for all"]
