"""Verdicts to scores: values where all verdicts are there, a reason where one is not."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.episode import Score, StopReason, UnscoredReason
from schemas.verdict import Outcome
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.contract import TestRun
from tests.tasks.benchmarks.codeif.dialogues import (
    Judge,
    episode_of,
    raw_row,
    sample,
    scores_of,
    verdicts_of,
    write_rows,
)

IA, STRICT, FRACTION, IFR = BENCHMARK.scores.metrics
TURNS = ["Exception Handling", "Functionality Extension", "Code Standard"]
INFRA, NO_ANSWER, NOTHING = (
    UnscoredReason.INFRA,
    UnscoredReason.NO_ANSWER,
    UnscoredReason.NOTHING_TO_FORGET,
)
Scored = dict[tuple[int, str], float | UnscoredReason | None]


@pytest.fixture
def score_with(tmp_path: Path) -> Callable[..., Scored]:
    def run(judge: Judge, n_answers: int = 4, stop: StopReason = StopReason.FINISHED) -> Scored:
        path = write_rows(tmp_path / "rows.jsonl", raw_row(**{"multi-turn": TURNS}))
        staged = BENCHMARK.data.stage(path, "current")
        problem, dialog = staged.problems[0], staged.dialogs[0]
        episode = episode_of(problem, dialog, ["x"] * n_answers, stop)
        runs = BENCHMARK.programs.test_runs(problem, dialog, episode, {})
        rows = scores_of(problem, dialog, episode, verdicts_of(episode, runs, judge))
        return {(row.turn, row.metric): row.unscored_reason or row.value for row in rows}

    return run


def judge_by(table: dict[tuple[int, str], Outcome]) -> Judge:
    return lambda run: table.get((run.turn, run.instruction_id), Outcome.PASSED)


def test_values_of_a_dialogue_worked_by_hand(score_with: Callable[..., Scored]) -> None:
    failing = {
        (2, "Exception Handling"): Outcome.FAILED,
        (3, "Functionality Extension"): Outcome.TIMEOUT,
    }
    failing |= {(4, "base"): Outcome.TIMEOUT, (4, "Exception Handling"): Outcome.FAILED}
    assert score_with(judge_by(failing)) == {
        (1, IA): 1.0, (1, STRICT): 1.0, (1, FRACTION): 1.0, (1, IFR): NOTHING,
        (2, IA): 0.0, (2, STRICT): 0.0, (2, FRACTION): 0.5, (2, IFR): 0.0,
        (3, IA): 0.0,
        (4, IA): 1.0, (4, STRICT): 0.0, (4, FRACTION): pytest.approx(1 / 3), (4, IFR): 1.0,
    }  # fmt: skip


def test_infra_takes_the_values_that_need_it_and_no_others(
    score_with: Callable[..., Scored],
) -> None:
    scored = score_with(judge_by({(2, "base"): Outcome.INFRA}))
    assert {key for key, value in scored.items() if value is INFRA} == {
        (2, STRICT),
        (2, FRACTION),
        (2, IFR),
        (4, IFR),
    }
    assert scored[2, IA] == scored[4, STRICT] == 1.0


def test_a_dialogue_that_stopped_early_has_a_row_for_every_missing_value(
    score_with: Callable[..., Scored],
) -> None:
    scored = score_with(judge_by({}), n_answers=1, stop=StopReason.SUBJECT_ERROR)
    assert {key for key, value in scored.items() if value is NO_ANSWER} == {
        key for key in scored if key[0] > 1
    }
    assert len(scored) == 13


def test_a_dialogue_that_a_fault_stopped_is_infra_and_not_the_model_s_failure(
    score_with: Callable[..., Scored],
) -> None:
    scored = score_with(judge_by({}), n_answers=2, stop=StopReason.INFRA)
    assert {value for (turn, _), value in scored.items() if turn > 2} == {INFRA}
    assert scored[2, IA] == 1.0


def test_an_answer_without_verdicts_is_a_fault_of_ours() -> None:
    staged = sample()
    problem, dialog = staged.problems[0], staged.dialogs[0]
    episode = episode_of(problem, dialog, ["x"] * 4)
    rows = scores_of(problem, dialog, episode, ())
    assert {row.unscored_reason for row in rows} == {INFRA}


def all_scores(judge: Judge) -> list[Score]:
    staged = sample()
    scores: list[Score] = []
    for problem, dialog in zip(staged.problems, staged.dialogs, strict=True):
        episode = episode_of(problem, dialog, ["x"] * len(dialog.instruction_ids))
        verdicts = verdicts_of(
            episode, BENCHMARK.programs.test_runs(problem, dialog, episode, {}), judge
        )
        scores += scores_of(problem, dialog, episode, verdicts)
    return scores


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_what_the_contract_promises_of_scores_holds(random: Random) -> None:
    def judge(_: TestRun) -> Outcome:
        return random.choice(list(Outcome))

    rows = {(row.episode_id, row.turn, row.metric): row for row in all_scores(judge)}
    rounds = {
        (d.problem_id, turn)
        for d in sample().dialogs
        for turn in range(1, len(d.instruction_ids) + 1)
    }
    due = {
        (d.problem_id, *one)
        for d in sample().dialogs
        for one in BENCHMARK.due("static", {}, d).scores
    }
    assert due == {(*one, IA) for one in rounds}
    assert {(row.problem_id, row.turn) for row in rows.values() if row.metric == IA} == rounds
    for metric, value, implied, implied_value in BENCHMARK.scores.implications:
        for (episode, turn, name), row in rows.items():
            if name == metric and row.value == value:
                assert rows[episode, turn, implied].value == implied_value


def test_a_score_names_the_instruction_of_its_turn() -> None:
    first = sample().dialogs[0]
    rows = [
        row
        for row in all_scores(lambda _: Outcome.PASSED)
        if row.problem_id == first.problem_id and row.metric == IA
    ]
    assert tuple(row.instruction_id for row in rows) == first.instruction_ids
