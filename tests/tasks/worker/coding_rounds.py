"""A benchmark whose answers are run while the dialogue goes on: `live` tells what failed, `told`
asks in several dialogs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Dialog, HistoryPolicy, Role, Turn
from schemas.episode import Episode, Feedback, Score, Step, StopReason, UnscoredReason
from schemas.problem import Problem, TestSuite
from schemas.run import Limits
from schemas.verdict import Outcome
from tasks.benchmarks.contract import (
    About,
    Benchmark,
    Data,
    Due,
    Programs,
    ScoreRequest,
    Scores,
    Setting,
    Staged,
    TestRun,
)
from tasks.benchmarks.setting import CastRequest, Play
from tasks.dialogue.chat_subject import ChatSubject
from tasks.dialogue.engine import Cast, Stop, Transcript
from tasks.dialogue.tools import ProgramRunner
from tasks.language.markdown_code import first_python_block
from tests.problems import simple_problem

NAME, MODULE = "rounds", "tests.tasks.worker.coding_rounds"
N_ROUNDS = 3
METRIC = "instruction_accuracy"
TESTS = """
import unittest
class TestCases(unittest.TestCase):
    def test_case_1(self): self.assertEqual(solve(1), 2)
    def test_case_2(self): self.assertEqual(solve(2), 3)
"""
RIGHT = "def solve(x):\n    return x + 1"
ANSWERS: Mapping[str, tuple[str, ...]] = {
    "wrong at first": ("def solve(x):\n    return 2", RIGHT),
    "never compiles": ("def solve(x:\n",) * N_ROUNDS,
    "hangs at first": ("def solve(x):\n    while x == 2: pass\n    return x + 1", RIGHT),
    "right at once": (RIGHT,),
}
"""Problem -> what `control:gold` answers, round by round."""


def stage(source: Path, dataset_version: str) -> Staged:
    """The same problems whatever lies at `source`: one live dialog each, and of the first two two
    more that are told.
    """
    problems = tuple(
        simple_problem(
            name,
            "Write solve(x).",
            TESTS,
            "unittest",
            benchmark=NAME,
            reference_code=RIGHT,
            source_line=line,
        )
        for line, name in enumerate(ANSWERS, 1)
    )
    told = tuple(_dialog(problem, f"told {n}") for problem in problems[:2] for n in (1, 2))
    return Staged(
        (*(_dialog(problem, "live") for problem in problems), *told),
        problems,
        (),
        n_input=len(problems),
    )


def _dialog(problem: Problem, part: str) -> Dialog:
    own = part != "live"
    return Dialog(
        benchmark=NAME,
        dataset_version="sample",
        dialog_id=f"{problem.problem_id}#{part}" if own else problem.problem_id,
        problem_id=problem.problem_id,
        turns=(
            Turn(
                turn=1, role=Role.USER, content=f"{problem.prompt} ({part})", instruction_id="base"
            ),
        ),
        labels=(("part", part.partition(" ")[0]),),
        row_digest=content_id([problem.row_digest, part]) if own else problem.row_digest,
        problem_digest=problem.row_digest if own else "",
    )


@dataclass(frozen=True)
class Coder:
    """Runs its answer before it says it."""

    chat: ChatSubject
    programs: ProgramRunner
    suite: TestSuite
    role: Role = Role.ASSISTANT

    async def speak(self, transcript: Transcript) -> Step | Stop:
        said = await self.chat.speak(transcript)
        if isinstance(said, Stop):
            return said
        program = await self.programs.run(
            self.suite.kind, first_python_block(said.content), self.suite.tests
        )
        return said.model_copy(update={"program": program})


@dataclass(frozen=True)
class Asker:
    """Says what failed, until nothing does."""

    role: Role = Role.USER

    async def speak(self, transcript: Transcript) -> Step | Stop:
        if transcript.turn == 1:
            return Step(turn=1, role=self.role, content=transcript.dialog.turns[0].content or "")
        program = transcript.steps[-1].program
        if program is None or program.outcome is Outcome.PASSED:
            return Stop(StopReason.FINISHED)
        told = Feedback(compilation=program.compile_error, execution=program.detail)
        return Step(
            turn=transcript.turn,
            role=self.role,
            content=f"It fails: {program.detail}",
            feedback=told,
        )


def cast(request: CastRequest) -> Cast:
    """In `told`, nothing is run in the dialogue."""
    chat = ChatSubject(request.subject, request.sampling, HistoryPolicy.LAST_CODE_AND_FEEDBACK)
    if request.setting == "told":
        return Cast(chat, Asker(), max_turns=2)
    return Cast(
        Coder(chat, request.programs, request.problem.instructions[0].suite),
        Asker(),
        max_turns=N_ROUNDS,
    )


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> Sequence[TestRun]:
    """Each answer with the problem's tests."""
    suite = problem.instructions[0].suite
    answers = [
        (step.turn, first_python_block(step.content))
        for step in episode.steps
        if step.role is Role.ASSISTANT
    ]
    return tuple(TestRun(turn, "base", code, suite.tests, suite.kind) for turn, code in answers)


test_runs.__test__ = False  # type: ignore[attr-defined]  (not for pytest to collect)


def score(request: ScoreRequest) -> Sequence[Score]:
    """Whether any answer of a sample passed, on the last of its episodes."""
    outcomes = [verdict.outcome for played in request.played for verdict in played.verdicts]
    is_lost = Outcome.INFRA in outcomes or not outcomes
    episode = request.played[-1].episode
    return (
        Score(
            run_id=request.run_id,
            benchmark=NAME,
            model=episode.model,
            episode_id=episode.episode_id,
            problem_id=request.problem.problem_id,
            sample=request.sample,
            turn=1,
            instruction_id="base",
            metric=METRIC,
            metric_version=1,
            value=None if is_lost else float(Outcome.PASSED in outcomes),
            unscored_reason=UnscoredReason.INFRA if is_lost else None,
        ),
    )


def _part(setting: str, dialog: Dialog) -> bool:
    return ("part", setting.partition("[")[0]) in dialog.labels


def _answer(problem: Problem, turn: int) -> str:
    answers = ANSWERS[problem.problem_id]
    return f"```python\n{answers[min(turn, len(answers)) - 1]}\n```"


_LIVE = Setting(
    name="live", help="feedback from what ran", history=HistoryPolicy.LAST_CODE_AND_FEEDBACK
)


def _due(setting: str, options: Mapping[str, str], dialog: Dialog) -> Due:
    return Due(1 if setting == "told" else N_ROUNDS, frozenset(), is_exact=False)


BENCHMARK = Benchmark(
    about=About(name=NAME, version="1", title="Coding rounds", paper="none: a test's own"),
    data=Data(stage=stage, sample=files("tests.tasks.worker"), plays=_part),
    settings={
        "live": _LIVE,
        "live[model]": replace(
            _LIVE,
            name="live[model]",
            needs_simulator=True,
            prompts={"ask": "x" * 400},
            simulator_prompts=("ask",),
        ),
        "told": replace(_LIVE, name="told"),
        "other": replace(_LIVE, name="other"),
    },
    play=Play(cast=cast, gold_answer=_answer),
    programs=Programs(test_runs=test_runs, limits=Limits(cpu_s=1.0, wall_s=30.0)),
    scores=Scores(metrics=(METRIC,), score=score, due=_due),
)
