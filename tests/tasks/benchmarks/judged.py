"""A benchmark that judges rate: `talk` without programs or sandbox, `code` with tests that one of
its rubrics is shown.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal

from pydantic import Field

from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.episode import Episode, Score
from schemas.problem import BASE_INSTRUCTION, Problem
from tasks.benchmarks.advanced import JudgeRequest, Judging
from tasks.benchmarks.contract import (
    Benchmark,
    Data,
    Due,
    Programs,
    ScoreRequest,
    Scores,
    Staged,
    TestRun,
    missing_rating,
)
from tasks.benchmarks.setting import About, Setting
from tasks.judging.rubric import JudgeRun, Rubric
from tasks.language.chat_model import Message
from tasks.language.markdown_code import first_python_block
from tasks.metrics.registry import metric
from tests.problems import simple_problem

NAME, N_DIALOGS, N_ROUNDS = "judged", 12, 2
GOOD = '{"reason": "plain", "clarity": 4, "tone": "warm"}'
_ASK, _WHOLE = "How clear is this answer?", "Was the whole dialogue any good?"


class Clarity(Frozen):
    """How clear an answer is, from 1 to 5, and its tone."""

    reason: str
    clarity: int = Field(ge=1, le=5)
    tone: Literal["warm", "cold"]


class Whole(Frozen):
    """Whether a dialogue was any good."""

    good: bool


CLEAR = Rubric(
    name="clear",
    version="1",
    prompt=_ASK,
    answer=Clarity,
    values=lambda answer: {"clarity": answer.clarity, "tone": answer.tone},
    dimensions=("clarity", "tone"),
    ranges={"clarity": (1, 5)},
    drift=((Message(Role.USER, f"{_ASK} Yes."),), (Message(Role.USER, f"{_ASK} No."),)),
)
WHOLE = Rubric(
    name="whole",
    version="1",
    prompt=_WHOLE,
    answer=Whole,
    values=lambda answer: {"": float(answer.good)},
    scope="dialogue",
    reads_verdicts=True,
)


@metric("clarity", title="clarity")
def clarity(value: float) -> float:
    """The rating as a share of five."""
    return value / 5


def stage(source: Path, dataset_version: str) -> Staged:
    """The same dialogues whatever lies at `source`.

    The last two say the same: one judgement serves both.
    """
    problems = tuple(map(_problem, range(N_DIALOGS)))
    return Staged(
        tuple(map(_dialog, range(N_DIALOGS), problems)), problems, (), n_input=len(problems)
    )


def _problem(number: int) -> Problem:
    return simple_problem(
        f"p{number:02}",
        _text(number, 1),
        "assert solve() == 1",
        benchmark=NAME,
        reference_code="def solve(): return 1",
        source_line=number + 1,
        row_digest=content_id(["judged problem", number]),
    )


def _text(number: int, turn: int) -> str:
    return f"Problem {min(number, N_DIALOGS - 2)}, round {turn}"


def _dialog(number: int, problem: Problem) -> Dialog:
    turns = [
        turn
        for n in range(1, N_ROUNDS + 1)
        for turn in (
            Turn(turn=n, role=Role.USER, content=_text(number, n), instruction_id=BASE_INSTRUCTION),
            Turn(turn=n, role=Role.ASSISTANT),
        )
    ]
    return Dialog(
        benchmark=NAME,
        dataset_version=problem.dataset_version,
        dialog_id=problem.problem_id,
        problem_id=problem.problem_id,
        turns=tuple(turns),
        row_digest=content_id([problem.problem_id, "judged"]),
        problem_digest=problem.row_digest,
    )


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> Sequence[TestRun]:
    """The last answer's code with its test."""
    answer = episode.answer(N_ROUNDS)
    code = answer and first_python_block(answer)
    return (TestRun(N_ROUNDS, BASE_INSTRUCTION, code, problem.instructions[0].suite.tests),)


def judge_runs(request: JudgeRequest) -> Sequence[JudgeRun]:
    """Each answer alone; or the whole dialogue with the outcome of its tests."""
    said = {
        step.turn: step.content for step in request.episode.steps if step.role is Role.ASSISTANT
    }
    if request.rubric == CLEAR.name:
        heard = {turn.turn: turn.content for turn in request.dialog.turns if turn.role is Role.USER}
        asked = {turn: f"{CLEAR.prompt}\n{heard[turn]}\n{text}" for turn, text in said.items()}
        return tuple(
            JudgeRun(turn, request.rubric, (Message(Role.USER, text),))
            for turn, text in asked.items()
        )
    outcomes = ", ".join(verdict.outcome.value for verdict in request.verdicts)
    return (
        JudgeRun(
            0,
            request.rubric,
            (Message(Role.USER, f"{WHOLE.prompt}\n{json.dumps(said)}\ntests: {outcomes}"),),
        ),
    )


def score(request: ScoreRequest) -> Sequence[Score]:
    """Return the clarity of each answer, or why it has none."""
    (played,) = request.played
    ratings = (rating for rating in played.judgements if rating.dimension == "clarity")
    values = {
        rating.turn: missing_rating(rating) if rating.value is None else clarity(rating.value)
        for rating in ratings
    }
    return tuple(request.row(played, clarity, value, turn=turn) for turn, value in values.items())


def due(setting: str, options: Mapping[str, str], dialog: Dialog) -> Due:
    """A clarity for each answer."""
    return Due(N_ROUNDS, frozenset((turn, "clarity") for turn in range(1, N_ROUNDS + 1)))


BENCHMARK = Benchmark(
    about=About(name=NAME, version="1", title="Judged", paper="none"),
    data=Data(stage=stage, sample=files("tests.tasks.benchmarks")),
    settings={
        "talk": Setting(
            name="talk", help="no programs", rubrics=(CLEAR.name,), runs_programs=False
        ),
        "code": Setting(name="code", help="with tests", rubrics=(CLEAR.name, WHOLE.name)),
    },
    programs=Programs(test_runs=test_runs),
    judging=Judging({rubric.name: rubric for rubric in (CLEAR, WHOLE)}, judge_runs),
    scores=Scores(metrics=("clarity",), score=score, due=due),
)
