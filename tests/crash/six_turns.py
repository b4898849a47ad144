"""A benchmark for the harness: 60 dialogues of six turns, and one small program for each, so that a night is cheap to repeat."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Dialog, HistoryPolicy, Role, Turn
from schemas.episode import Episode
from schemas.problem import Instruction, Problem, TestSuite
from schemas.run import Limits
from schemas.score import Score, UnscoredReason
from schemas.verdict import Outcome
from tasks.benchmarks.contract import Benchmark, CastRequest, ScoreRequest, Setting, Staged, TestRun
from tasks.dialogue.chat_subject import ChatSubject
from tasks.dialogue.scripted_user import ScriptedUser
from tasks.dialogue.seats import Cast
from tasks.language.code_block import first_python_block

N_DIALOGS, N_TURNS = 60, 6
NAME = "crash"
METRIC = "instruction_accuracy"
_FAILING = 4
"""Every fourth problem's tests fail, so that a verdict that went to another episode would show."""


def stage(source: Path, dataset_version: str) -> Staged:
    """The same dialogues whatever lies at `source`."""
    problems, dialogs = zip(*(_row(number, dataset_version) for number in range(N_DIALOGS)), strict=True)
    return Staged(dialogs, problems, (), n_input=N_DIALOGS)


def _row(number: int, version: str) -> tuple[Problem, Dialog]:
    name = f"problem/{number:02}"
    texts = tuple(f"Problem {number}, round {turn}: write solve()." for turn in range(1, N_TURNS + 1))
    tests = (f"assert solve().startswith('turn {N_TURNS} of ')", f"assert {number} % {_FAILING} != 0")
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


def cast(request: CastRequest) -> Cast:
    """A scripted user and a chat model."""
    texts = tuple(turn.content or "" for turn in request.dialog.turns if turn.role is Role.USER)
    subject = ChatSubject(request.subject, request.sampling, HistoryPolicy.ON_POLICY)
    return Cast(subject=subject, counterpart=ScriptedUser(texts), max_turns=N_TURNS + 1)


def test_runs(problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]) -> Sequence[TestRun]:
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


BENCHMARK = Benchmark(
    name=NAME,
    version="1",
    title="Six turns",
    paper="none: the crash harness's own",
    dataset_versions=("sample",),
    default_dataset_version="sample",
    settings={"six": Setting(name="six", help="six rounds, then one program")},
    metrics=(METRIC,),
    limits=Limits(cpu_s=3.0, wall_s=30.0),
    packages=(),
    stage=stage,
    sample=files("tests.crash"),
    cast=cast,
    test_runs=test_runs,
    score=score,
    gold_answer=lambda problem, turn: f"```python\n{problem.reference_code}\n```",
)
