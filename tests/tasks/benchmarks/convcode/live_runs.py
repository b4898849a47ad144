"""Live dialogues really played: the benchmark's own participants, a recorded subject, a recorded simulator
and the real sandbox.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sandbox import registry
from schemas.content_id import canonical_json
from schemas.dialog import Dialog
from schemas.episode import Episode, Step, StopReason, VerbalFeedback
from schemas.problem import Problem, SuiteKind
from schemas.run import Limits, ModelIdentity, RunSpec, Sampling
from schemas.verdict import ProgramVerdict
from tasks.benchmarks.convcode.cast import cast
from tasks.benchmarks.convcode.settings import COVERAGE, LIVE, TURNS
from tasks.benchmarks.convcode.stage import live_dialog
from tasks.benchmarks.results import FinishedRun
from tasks.benchmarks.setting import CastRequest
from tasks.dialogue.engine import Transcript, play_dialogue
from tasks.language.recorded_model import RecordedModel, Recording
from tests.problems import simple_problem
from tests.sandbox.programs import run_program

FINISHED_AT = "2026-01-02T03:04:05+00:00"
N_TURNS = 2
TESTS = """import unittest


class TestCases(unittest.TestCase):
    def test_case_1(self):
        self.assertEqual(add(1, 2), 3)

    def test_case_2(self):
        self.assertEqual(add(-1, 1), 0)

    def test_case_3(self):
        self.assertEqual(add(0, 0), 0)

    def test_case_4(self):
        self.assertEqual(add("a", "b"), "ab")
"""
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"
NUMBERS_ONLY = "def add(a, b):\n    return int(a) + int(b)\n"
BROKEN = "def add(a, b)\n    return a + b\n"


@dataclass(frozen=True)
class Plot:
    """The codes that the subject answers with, round by round."""

    codes: tuple[str, ...]


PLOTS: Mapping[str, Plot] = {
    "Plot/2": Plot((WRONG, BROKEN, NUMBERS_ONLY)),
    "Plot/10": Plot((WRONG, RIGHT)),
    "Plot/3": Plot((RIGHT,)),
    "Plot/4": Plot((NUMBERS_ONLY, WRONG, WRONG)),
}
"""Never solved; solved by turn 1; at once; and one that passes the first three tests, so that a
novice has nothing to say.
"""


def problem(task: str) -> Problem:
    """Write `add`."""
    prompt = f"Write add(a, b) for {task}."
    return simple_problem(
        task, prompt, TESTS, "unittest", benchmark="convcode", reference_code=RIGHT
    )


PROBLEMS = tuple(problem(task) for task in PLOTS)


@cache
def _report(kind: SuiteKind, code: str, tests: tuple[str, ...]) -> ProgramVerdict:
    verdict = run_program(registry.load("bubblewrap"), kind, code, tests, Limits())
    return verdict.model_copy(update={"verdict_id": "v"})


class Programs:
    """Runs each program in the sandbox, equal ones once."""

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: object = None
    ) -> ProgramVerdict:
        return _report(kind, code, tests)


def _recorded(name: str, answers: Mapping[tuple[str, int, int], str]) -> RecordedModel:
    return RecordedModel(
        ModelIdentity(provider="recorded", name=name), Recording(digest=name, answers=answers)
    )


def subject(plots: Mapping[str, Plot]) -> RecordedModel:
    """Answers with the plots' codes, fenced, among other words."""
    return _recorded(
        "lab/subject",
        {
            (task, turn, 0): f"So:\n```python\n{code}```\nThat is it."
            for task, plot in plots.items()
            for turn, code in enumerate(plot.codes, 1)
        },
    )


def simulator(plots: Mapping[str, Plot]) -> RecordedModel:
    """Says which round's code it is about."""
    return _recorded(
        "speaker",
        {
            (
                task,
                turn,
                0,
            ): f"Reasoning: it fails.\nFeedback: Round {turn - 1} of {task} is wrong.\nBoth lines."
            for task in plots
            for turn in range(2, N_TURNS + 3)
        },
    )


def spec(setting: str, **changes: object) -> RunSpec:
    """A live run of two turns of feedback."""
    speaks = LIVE[setting].verbal is not VerbalFeedback.NONE
    fields: dict[str, object] = {
        "benchmark": "convcode",
        "benchmark_version": "1",
        "setting": setting,
        "dataset_version": "sample",
        "dataset_digest": "d",
        "episode_options": ((COVERAGE, "first_three_tests"), (TURNS, str(N_TURNS))),
        "subject": subject({}).identity,
        "simulator": simulator({}).identity if speaks else None,
    }
    return RunSpec.model_validate(fields | changes)


def play(run: RunSpec, plots: Mapping[str, Plot] = PLOTS) -> tuple[Episode, ...]:
    """All dialogues of a run, played to their ends."""
    return tuple(asyncio.run(_play(run, problem(task), plots)) for task in plots)


async def _play(run: RunSpec, of: Problem, plots: Mapping[str, Plot]) -> Episode:
    dialog = live_dialog(of)
    speaker = simulator(plots) if run.simulator else None
    participants = cast(
        CastRequest(
            run.setting,
            dict(run.episode_options),
            of,
            dialog,
            subject(plots),
            speaker,
            Sampling(),
            Programs(),
        )
    )
    ending = await play_dialogue(Transcript(of, dialog, 0, 0, 1), participants, lambda step: None)
    return episode_of(
        run,
        dialog,
        f"{run.setting} {of.problem_id}",
        ending.steps,
        ending.stop_reason,
        ending.error,
    )


def episode_of(
    run: RunSpec,
    dialog: Dialog,
    episode_id: str,
    steps: tuple[Step, ...],
    stop_reason: StopReason = StopReason.FINISHED,
    error: str | None = None,
) -> Episode:
    """The run's first and only attempt at a dialog."""
    return Episode(
        episode_id=episode_id,
        run_id=run.run_id,
        benchmark=run.benchmark,
        model=run.subject.label,
        setting=run.setting,
        dataset_version=dialog.dataset_version,
        problem_id=dialog.problem_id,
        dialog_id=dialog.dialog_id,
        row_digest=dialog.row_digest,
        sample=0,
        seed=0,
        attempt=1,
        stop_reason=stop_reason,
        error=error,
        started_at=FINISHED_AT,
        finished_at=FINISHED_AT,
        steps=steps,
    )


def finished(run: RunSpec, episodes: Callable[[], Sequence[Episode]]) -> FinishedRun:
    """The run as a build is given it."""
    return FinishedRun(run.run_id, run, FINISHED_AT, episodes)


def record(run: RunSpec) -> dict[str, Any]:
    """Fields of a finished run's record."""
    counts = dict.fromkeys(
        ("n_episodes", "n_owed", "n_infra", "n_unscored", "n_truncated", "model_calls"), 0
    )
    return counts | {
        "run_id": run.run_id,
        "night_id": "night",
        "benchmark": run.benchmark,
        "model": run.subject.label,
        "setting": run.full_setting,
        "dataset_version": run.dataset_version,
        "spec_json": canonical_json(run),
        "sandbox": run.sandbox,
        "isolated": True,
        "samples": 1,
        "seed": 0,
        "status": "finished",
        "started_at": FINISHED_AT,
        "finished_at": FINISHED_AT,
        "parley_version": "1",
    }
