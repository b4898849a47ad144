"""Hand-made raw rows, episodes and verdicts of this benchmark."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.dialog import Dialog, Role
from schemas.episode import Episode, Score, Step, StopReason
from schemas.problem import Problem
from schemas.verdict import Outcome, TestVerdict
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.contract import Played, ScoreRequest, Staged, TestRun

Judge = Callable[[TestRun], Outcome]
NOW = "2026-01-01T00:00:00+00:00"
RUN = "run-1"


def raw_row(**changes: Any) -> dict[str, Any]:
    """A valid raw row; a change to None takes the field out."""
    row: dict[str, Any] = {
        "task_id": 1,
        "prompt": "Write add(a, b).",
        "test": ["assert add(1, 2) == 3"],
        "code": "def add(a, b):\r\n    return a + b",
        "requirements": {
            "Code Standard": {"requirement": "Follow PEP 8.", "unit_test": "assert True"},
            "Functionality Extension": {
                "requirement": "Add a third.",
                "unit_test": ["assert add(1, 2, 3) == 6"],
            },
            "Exception Handling": {
                "requirement": "Raise TypeError.",
                "unit_test": ["assert add", "assert 1"],
            },
        },
        "multi-turn": ["Exception Handling", "Code Standard"],
    }
    row |= changes
    return {name: value for name, value in row.items() if value is not None}


def write_rows(path: Path, *rows: Mapping[str, Any] | bytes) -> Path:
    """A JSONL file; bytes are written as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"".join(
            (row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows
        )
    )
    return path


def sample() -> Staged:
    """The bundled records."""
    return BENCHMARK.data.stage(Path(str(BENCHMARK.data.sample)), "sample")


def episode_of(
    problem: Problem,
    dialog: Dialog,
    answers: Sequence[str],
    stop: StopReason = StopReason.FINISHED,
    setting: str = "static",
) -> Episode:
    """An episode in which the subject gave these answers, one a round, and then it ended."""
    users = [turn for turn in dialog.turns if turn.role is Role.USER]
    steps: list[Step] = []
    for user, answer in zip(users, answers, strict=False):
        steps.append(Step(turn=user.turn, role=Role.USER, content=user.content or ""))
        steps.append(Step(turn=user.turn, role=Role.ASSISTANT, content=answer))
    return Episode(
        episode_id=f"episode-{problem.problem_id}",
        run_id=RUN,
        benchmark=problem.benchmark,
        model="recorded:test",
        setting=setting,
        dataset_version=problem.dataset_version,
        problem_id=problem.problem_id,
        dialog_id=dialog.dialog_id,
        row_digest=problem.row_digest,
        sample=0,
        seed=0,
        attempt=1,
        stop_reason=stop,
        started_at=NOW,
        finished_at=NOW,
        steps=tuple(steps),
    )


def verdicts_of(episode: Episode, runs: Iterable[TestRun], judge: Judge) -> tuple[TestVerdict, ...]:
    """One verdict a run, as `judge` says; a run without code is an error."""
    return tuple(
        TestVerdict(
            run_id=RUN,
            benchmark=episode.benchmark,
            model=episode.model,
            episode_id=episode.episode_id,
            problem_id=episode.problem_id,
            sample=episode.sample,
            turn=run.turn,
            instruction_id=run.instruction_id,
            outcome=Outcome.ERROR if run.code is None else judge(run),
            sandbox="bubblewrap",
        )
        for run in runs
    )


def scores_of(
    problem: Problem, dialog: Dialog, episode: Episode, verdicts: Iterable[TestVerdict]
) -> tuple[Score, ...]:
    """The benchmark's scores of one episode."""
    played = Played(dialog, episode, tuple(verdicts))
    return tuple(
        BENCHMARK.scores.score(
            ScoreRequest(problem, episode.sample, RUN, episode.setting, {}, (played,))
        )
    )
