"""Questions on one long conversation that is kept once: `recall`, of two rounds, one scripted and
one to be answered.
"""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Context, Dialog, Role, Turn
from schemas.episode import Score, reason_of
from schemas.problem import BASE_INSTRUCTION, Problem
from tasks.benchmarks.contract import Benchmark, Data, ScoreRequest, Scores, Staged
from tasks.benchmarks.setting import About, Setting
from tasks.metrics.registry import metric
from tests.problems import simple_problem

NAME, METRIC = "long_talk", "recalled"
N_DIALOGS, N_CONTEXT_ROUNDS = 6, 20


@metric(METRIC, title="recalled")
def recalled(answer: str, golden: str) -> float:
    """1 where the answer names the golden bird, else 0."""
    return float(golden in answer.lower())


def stage(
    source: Path, dataset_version: str, n_dialogs: int = N_DIALOGS, n_rounds: int = N_CONTEXT_ROUNDS
) -> Staged:
    """The same dialogues whatever lies at `source`; each begins after another part of the
    conversation.
    """
    context = Context.of(
        NAME, dataset_version, tuple(turn for n in range(1, n_rounds + 1) for turn in _round(n))
    )
    problems = tuple(_problem(number, dataset_version) for number in range(n_dialogs))
    shown = [2 * (1 + number % n_rounds) for number in range(n_dialogs)]
    dialogs = tuple(_dialog(p, context, n) for p, n in zip(problems, shown, strict=True))
    return Staged(dialogs, problems, (), n_dialogs, (context,))


def _round(number: int) -> tuple[Turn, Turn]:
    return (
        Turn(turn=number, role=Role.USER, content=f"On day {number} I saw bird {number}."),
        Turn(turn=number, role=Role.ASSISTANT, content=f"Bird {number}, noted."),
    )


def _problem(number: int, version: str) -> Problem:
    same = {
        "benchmark": NAME,
        "dataset_version": version,
        "source_line": number + 1,
        "row_digest": content_id([NAME, number]),
    }
    return simple_problem(f"q{number:04}", f"Which bird, in question {number}?", **same)


def _dialog(problem: Problem, context: Context, context_turns: int) -> Dialog:
    golden = f"bird {context_turns // 2}"
    turns = (
        Turn(
            turn=1,
            role=Role.USER,
            content="Let me ask you something.",
            instruction_id=BASE_INSTRUCTION,
        ),
        Turn(turn=1, role=Role.ASSISTANT, content="Go ahead."),
        Turn(turn=2, role=Role.USER, content=problem.prompt, instruction_id=BASE_INSTRUCTION),
        Turn(turn=2, role=Role.ASSISTANT, content=golden, do_eval=True),
    )
    return Dialog(
        benchmark=NAME,
        dataset_version=problem.dataset_version,
        dialog_id=problem.problem_id,
        problem_id=problem.problem_id,
        turns=turns,
        row_digest=content_id([problem.problem_id, NAME]),
        problem_digest=problem.row_digest,
        context_id=context.context_id,
        context_turns=context_turns,
    )


def score(request: ScoreRequest) -> Sequence[Score]:
    """1 where the answer names the golden bird."""
    (played,) = request.played
    (golden,) = (turn.content or "" for turn in played.dialog.turns if turn.is_generated)
    answer = played.episode.answer(2)
    return (
        Score(
            run_id=request.run_id,
            benchmark=NAME,
            model=played.episode.model,
            episode_id=played.episode.episode_id,
            problem_id=played.episode.problem_id,
            sample=request.sample,
            turn=2,
            metric=METRIC,
            metric_version=1,
            value=None if answer is None else recalled(answer, golden),
            unscored_reason=reason_of(played.episode, 2) if answer is None else None,
        ),
    )


BENCHMARK = Benchmark(
    about=About(name=NAME, version="1", title="Long talk", paper="none"),
    data=Data(stage=stage, sample=files("tests.tasks.benchmarks")),
    settings={"recall": Setting(name="recall", help="one answer after a long talk")},
    scores=Scores(metrics=(METRIC,), score=score),
)
