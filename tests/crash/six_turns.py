"""A benchmark for the harness: 60 dialogues of six turns, and one small program for each, so that a
night is cheap to repeat.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.episode import Episode, Score, UnscoredReason
from schemas.problem import Instruction, Problem, TestSuite
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
from tasks.language.markdown_code import first_python_block

N_DIALOGS, N_TURNS = 60, 6
NAME = "crash"
METRIC = "instruction_accuracy"
_FAILING = 4
"""Every fourth problem's tests fail, so that a verdict that went to another episode would show."""


def stage(source: Path, dataset_version: str) -> Staged:
    """The same dialogues whatever lies at `source`."""
    problems, dialogs = zip(
        *(_row(number, dataset_version) for number in range(N_DIALOGS)), strict=True
    )
    return Staged(dialogs, problems, (), n_input=N_DIALOGS)


def _row(number: int, version: str) -> tuple[Problem, Dialog]:
    name = f"problem/{number:02}"
    texts = tuple(
        f"Problem {number}, round {turn}: write solve()." for turn in range(1, N_TURNS + 1)
    )
    tests = (
        f"assert solve().startswith('turn {N_TURNS} of ')",
        f"assert {number} % {_FAILING} != 0",
    )
    digest = content_id([name, texts, tests])
    problem = Problem(
        benchmark=NAME,
        dataset_version=version,
        problem_id=name,
        level="L1",
        prompt=texts[0],
        instructions=tuple(
            Instruction(instruction_id=_instruction(turn), text=text, suite=TestSuite(tests=tests))
            for turn, text in enumerate(texts, 1)
        ),
        reference_code=f"def solve():\n    return 'turn {N_TURNS} of all'",
        source_file="six_turns.py",
        source_line=number + 1,
        row_digest=digest,
    )
    return problem, Dialog(
        benchmark=NAME,
        dataset_version=version,
        dialog_id=name,
        problem_id=name,
        turns=tuple(_turns(texts)),
        row_digest=digest,
    )


def _turns(texts: Sequence[str]) -> Iterator[Turn]:
    for turn, text in enumerate(texts, 1):
        yield Turn(turn=turn, role=Role.USER, content=text, instruction_id=_instruction(turn))
        yield Turn(turn=turn, role=Role.ASSISTANT)


def _instruction(turn: int) -> str:
    return "base" if turn == 1 else f"round {turn}"


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> Sequence[TestRun]:
    """The last answer, with the last round's tests."""
    answer = episode.answer(N_TURNS)
    code = None if answer is None else first_python_block(answer)
    return (TestRun(N_TURNS, _instruction(N_TURNS), code, problem.instructions[-1].suite.tests),)


test_runs.__test__ = False  # type: ignore[attr-defined]  (not for pytest to collect)


def score(request: ScoreRequest) -> Sequence[Score]:
    """Whether the last answer passed."""
    (played,) = request.played
    episode, verdicts = played.episode, played.verdicts
    outcome = verdicts[0].outcome if verdicts else Outcome.INFRA
    reasons = {Outcome.INFRA: UnscoredReason.INFRA, Outcome.ERROR: UnscoredReason.NO_ANSWER}
    return (
        Score(
            run_id=request.run_id,
            benchmark=episode.benchmark,
            model=episode.model,
            episode_id=episode.episode_id,
            problem_id=request.problem.problem_id,
            sample=episode.sample,
            turn=N_TURNS,
            instruction_id=_instruction(N_TURNS),
            metric=METRIC,
            metric_version=1,
            value=None if outcome in reasons else float(outcome is Outcome.PASSED),
            unscored_reason=reasons.get(outcome),
        ),
    )


def due(setting: str, options: Mapping[str, str], dialog: Dialog) -> Due:
    """Six rounds; only the last is scored."""
    return Due(N_TURNS, frozenset())


BENCHMARK = Benchmark(
    about=About(name=NAME, version="1", title="Six turns", paper="none: the crash harness's own"),
    data=Data(stage=stage, sample=files("tests.crash")),
    settings={"six": Setting(name="six", help="six rounds, then one program")},
    programs=Programs(test_runs=test_runs, limits=Limits(cpu_s=3.0, wall_s=30.0)),
    scores=Scores(metrics=(METRIC,), score=score, due=due),
)
