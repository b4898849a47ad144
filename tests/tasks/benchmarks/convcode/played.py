"""Hand-made tasks: dialogs, episodes and verdicts of live and static settings, one mark a turn."""

from collections.abc import Sequence

from schemas.dialog import Dialog, Role, Turn
from schemas.episode import Episode, Feedback, Score, Step, StopReason
from schemas.problem import BASE_INSTRUCTION, Problem
from schemas.verdict import Outcome, TestVerdict
from tasks.benchmarks.contract import Played, ScoreRequest
from tests.problems import simple_problem

RUN, MODEL, DATASET = "run-1", "recorded:test", "sample"
OUTCOMES = {
    "+": Outcome.PASSED,
    "-": Outcome.FAILED,
    "t": Outcome.TIMEOUT,
    "i": Outcome.INFRA,
    "e": Outcome.ERROR,
    "?": None,
}
"""Mark of a turn -> outcome of its program; `?` is an answer that nobody ran tests on, `e` a round
without an answer.
"""
TESTS = (
    "import unittest\n\n\nclass TestCases(unittest.TestCase):\n    def test_one(self):\n        "
    "self.assertEqual(f(), 1)\n"
)


def problem(name: str = "Sample/1") -> Problem:
    row = f"row of {name}"
    return simple_problem(
        name,
        "Write f.",
        TESTS,
        "unittest",
        benchmark="convcode",
        dataset_version=DATASET,
        row_digest=row,
    )


def dialog(labels: tuple[tuple[str, str], ...], name: str = "Sample/1") -> Dialog:
    return Dialog(
        benchmark="convcode",
        dataset_version=DATASET,
        dialog_id=f"{name} {labels}",
        problem_id=name,
        turns=(Turn(turn=1, role=Role.USER, content="Write f."), Turn(turn=1, role=Role.ASSISTANT)),
        labels=labels,
        row_digest=f"dialog {labels}",
        problem_digest=f"row of {name}",
    )


def played(
    of: Dialog,
    marks: str,
    stop: StopReason = StopReason.FINISHED,
    verbal: Sequence[str] = (),
    codes: Sequence[str] = (),
    sample: int = 0,
) -> Played:
    """An episode with a round for each mark; `verbal` are the feedbacks of rounds 2 and up, `codes`
    the answers.

    Each verbal feedback was one call of 100 + 10 tokens.
    """
    steps: list[Step] = []
    for turn, mark in enumerate(marks, 1):
        said = verbal[turn - 2] if 2 <= turn < len(verbal) + 2 else None
        feedback = Feedback(compilation="No syntax errors", verbal=said) if turn > 1 else None
        cost = {"n_calls": 1, "input_tokens": 100, "output_tokens": 10} if said else {}
        steps.append(
            Step(turn=turn, role=Role.USER, content=said or "Mend it.", feedback=feedback, **cost)
        )
        if mark != "e":
            code = codes[turn - 1] if codes else f"code {turn}"
            steps.append(Step(turn=turn, role=Role.ASSISTANT, content=f"```python\n{code}\n```"))
    episode = Episode(
        episode_id=f"episode {of.dialog_id} {sample}",
        run_id=RUN,
        benchmark="convcode",
        model=MODEL,
        setting="",
        dataset_version=DATASET,
        problem_id=of.problem_id,
        dialog_id=of.dialog_id,
        row_digest=of.row_digest,
        sample=sample,
        seed=sample,
        attempt=1,
        stop_reason=stop,
        started_at="2026-01-01T00:00:00+00:00",
        finished_at="2026-01-01T00:00:01+00:00",
        steps=tuple(steps),
    )
    return Played(of, episode, tuple(_verdicts(episode, marks)))


def _verdicts(episode: Episode, marks: str) -> list[TestVerdict]:
    return [
        TestVerdict(
            run_id=RUN,
            benchmark="convcode",
            model=MODEL,
            episode_id=episode.episode_id,
            problem_id=episode.problem_id,
            sample=episode.sample,
            turn=turn,
            instruction_id=BASE_INSTRUCTION,
            outcome=outcome,
            sandbox="zygote",
        )
        for turn, outcome in ((turn, OUTCOMES[mark]) for turn, mark in enumerate(marks, 1))
        if outcome is not None
    ]


def live(
    marks: str,
    stop: StopReason = StopReason.FINISHED,
    verbal: Sequence[str] = (),
    codes: Sequence[str] = (),
    name: str = "Sample/1",
) -> tuple[Played, ...]:
    """The one episode of a live setting."""
    return (played(dialog((("part", "live"),), name), marks, stop, verbal, codes),)


def static(
    marks: str,
    last: int,
    solved_at: int | None = None,
    absent: Sequence[int] = (),
    name: str = "Sample/1",
) -> tuple[Played, ...]:
    """An episode a turn of the logs; a blank mark is a turn that is not asked, `absent` those whose
    episode is missing.
    """
    asked = [turn for turn, mark in enumerate(marks) if mark != " "]
    return tuple(
        played(static_dialog(turn, last, solved_at, asked, name), marks[turn])
        for turn in asked
        if turn not in absent
    )


def static_dialog(
    turn: int, last: int, solved_at: int | None, asked: Sequence[int], name: str
) -> Dialog:
    """A turn of the logs."""
    return dialog(
        (
            ("iteration", str(turn)),
            ("part", "static"),
            ("last_iteration", str(last)),
            ("reference_solved_at", "" if solved_at is None else str(solved_at)),
            ("asked", ",".join(map(str, asked))),
            ("reference_model", "reference-7b"),
        ),
        name,
    )


def request(setting: str, episodes: tuple[Played, ...], turns: int = 10) -> ScoreRequest:
    """One sample of one problem."""
    of = problem(episodes[0].dialog.problem_id) if episodes else problem()
    return ScoreRequest(of, 0, RUN, setting, {"turns": str(turns)}, episodes)


def by_metric(rows: Sequence[Score], metric: str) -> dict[int, float | str | None]:
    """Turn -> value, or why there is none."""
    found = [row for row in rows if row.metric == metric]
    values = {
        row.turn: row.value if row.unscored_reason is None else row.unscored_reason.value
        for row in found
    }
    assert len(values) == len(found), f"{metric} has two rows of one turn"
    return values
