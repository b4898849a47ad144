"""Turns verdicts into scores: decides which value is missing and why, and asks the metrics for the others."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from schemas.episode import Episode
from schemas.score import Score, UnscoredReason, reason_of, worst_of
from schemas.verdict import Outcome
from tasks.benchmarks.codeif.strategies import FUNCTIONALITY_EXTENSION, tested_instructions
from tasks.benchmarks.contract import Played, ScoreRequest
from tasks.metrics.instruction_following import (
    TurnVerdicts,
    conversation_accuracy_fraction,
    conversation_accuracy_strict,
    instruction_accuracy,
    instruction_forgetting_ratio,
)
from tasks.metrics.registry import Metric

TurnMetric = Metric[[Sequence[TurnVerdicts], int], float] | Metric[[Sequence[TurnVerdicts], int], float | None]
Needed = Callable[[tuple[str, ...], int], Iterable[tuple[int, str]]]
"""(instruction ids, turn) -> the (turn, instruction) verdicts that a metric reads."""


def _own(ids: tuple[str, ...], turn: int) -> Iterable[tuple[int, str]]:
    return ((turn, ids[turn - 1]),)


def _conversation(ids: tuple[str, ...], turn: int) -> Iterable[tuple[int, str]]:
    return ((turn, name) for name in tested_instructions(ids, turn))


def _past(ids: tuple[str, ...], turn: int) -> Iterable[tuple[int, str]]:
    turns = (t for t in range(1, turn + 1) if ids[t - 1] != FUNCTIONALITY_EXTENSION)
    return ((t, name) for t in turns for name in tested_instructions(ids, t))


METRICS: tuple[tuple[TurnMetric, Needed, bool], ...] = (
    (instruction_accuracy, _own, True),
    (conversation_accuracy_strict, _conversation, False),
    (conversation_accuracy_fraction, _conversation, False),
    (instruction_forgetting_ratio, _past, False),
)
"""(metric, verdicts it reads, whether it is defined on a Functionality Extension turn)."""


def score(request: ScoreRequest) -> tuple[Score, ...]:
    """The scores of each episode of one sample of a problem."""
    return tuple(row for played in request.played for row in _episode_scores(request, played))


def _episode_scores(request: ScoreRequest, played: Played) -> tuple[Score, ...]:
    """One score for each turn of the dialog and metric defined there; unscored, with its reason, where it cannot be measured."""
    problem, episode, ids = request.problem, played.episode, played.dialog.instruction_ids
    outcomes = {(verdict.turn, verdict.instruction_id): verdict.outcome for verdict in played.verdicts}
    by_turn = _turn_verdicts(ids, outcomes)

    def one(turn: int, metric: TurnMetric, needed: Needed) -> Score:
        reason = _missing(needed(ids, turn), outcomes, episode)
        value = None if reason else metric(by_turn, turn)
        if value is None and reason is None:
            reason = UnscoredReason.NOTHING_TO_FORGET
        return Score(
            run_id=request.run_id,
            benchmark=episode.benchmark,
            model=episode.model,
            episode_id=episode.episode_id,
            problem_id=problem.problem_id,
            sample=episode.sample,
            turn=turn,
            instruction_id=ids[turn - 1],
            metric=metric.name,
            metric_version=metric.version,
            value=value,
            unscored_reason=reason,
        )

    return tuple(
        one(turn, metric, needed)
        for turn, name in enumerate(ids, 1)
        for metric, needed, on_extension in METRICS
        if on_extension or name != FUNCTIONALITY_EXTENSION
    )


def _turn_verdicts(ids: tuple[str, ...], outcomes: Mapping[tuple[int, str], Outcome]) -> tuple[TurnVerdicts, ...]:
    """Verdicts by turn. A timeout is a failure. Missing verdicts are left out; `_missing` keeps metrics away from them."""
    judged = {Outcome.PASSED: True, Outcome.FAILED: False, Outcome.TIMEOUT: False}
    return tuple(
        TurnVerdicts(
            instruction_id=own,
            passed={
                name: judged[outcomes[turn, name]]
                for name in tested_instructions(ids, turn)
                if outcomes.get((turn, name)) in judged
            },
        )
        for turn, own in enumerate(ids, 1)
    )


def _missing(
    needed: Iterable[tuple[int, str]], outcomes: Mapping[tuple[int, str], Outcome], episode: Episode
) -> UnscoredReason | None:
    """Reason why a verdict that the metric reads is missing; None where all are there."""
    return worst_of({_reason(outcomes.get(key), key[0], episode) for key in needed})


def _reason(outcome: Outcome | None, turn: int, episode: Episode) -> UnscoredReason | None:
    if outcome in (Outcome.INFRA, Outcome.UNSCORED):
        return UnscoredReason.INFRA if outcome is Outcome.INFRA else UnscoredReason.TOOLCHAIN_MISSING
    if outcome is Outcome.ERROR or outcome is None:
        return reason_of(episode, turn)
    return None
