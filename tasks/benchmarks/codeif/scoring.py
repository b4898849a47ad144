"""Scores from verdicts: a value by each metric, or the reason why it is missing; result tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from schemas.dialog import Dialog
from schemas.episode import Episode, Score, UnscoredReason, worst_of
from schemas.problem import BASE_INSTRUCTION
from schemas.verdict import Outcome, TestVerdict
from tasks.benchmarks.codeif.settings import (
    DYNAMIC,
    FUNCTIONALITY_EXTENSION,
    TWO_ROUND,
    most_rounds,
    tested_instructions,
)
from tasks.benchmarks.contract import Due, Played, ScoreRequest
from tasks.dialogue.reviewed_subject import review_rounds
from tasks.metrics.instruction_following import (
    TurnVerdicts,
    conversation_accuracy_fraction,
    conversation_accuracy_strict,
    instruction_accuracy,
    instruction_following_efficiency,
    instruction_forgetting_ratio,
)
from tasks.metrics.registry import Metric
from warehouse.wide_tables import (
    NOT_APPLICABLE,
    UNSCORED,
    Column,
    Columns,
    WideTable,
    counts,
    interval,
    result_columns,
)

TurnMetric = (
    Metric[[Sequence[TurnVerdicts], int], float]
    | Metric[[Sequence[TurnVerdicts], int], float | None]
)


@dataclass(frozen=True, slots=True)
class Round:
    """Turn to score, with the instructions that decide it."""

    instruction_id: str
    """Instruction that the turn gave."""
    instructions: tuple[str, ...]
    """Instructions whose tests the answer must pass."""


USUAL_SHARE = 0.8
"""Typical number of rounds in a dynamic dialogue, as a share of the maximum.

Most instructions need their round of feedback.
"""

NeededVerdicts = Callable[[Sequence[Round], int], Iterable[tuple[int, str]]]
"""Function (rounds, turn) -> the (turn, instruction) verdicts that a metric reads."""


def _own_verdict(rounds: Sequence[Round], turn: int) -> Iterable[tuple[int, str]]:
    return ((turn, rounds[turn - 1].instruction_id),)


def _conversation_verdicts(rounds: Sequence[Round], turn: int) -> Iterable[tuple[int, str]]:
    return ((turn, name) for name in rounds[turn - 1].instructions)


def _past_verdicts(rounds: Sequence[Round], turn: int) -> Iterable[tuple[int, str]]:
    turns = (
        t for t in range(1, turn + 1) if rounds[t - 1].instruction_id != FUNCTIONALITY_EXTENSION
    )
    return ((t, name) for t in turns for name in rounds[t - 1].instructions)


MetricRules = tuple[tuple[TurnMetric, NeededVerdicts, bool], ...]
METRICS: MetricRules = (
    (instruction_accuracy, _own_verdict, True),
    (conversation_accuracy_strict, _conversation_verdicts, False),
    (conversation_accuracy_fraction, _conversation_verdicts, False),
    (instruction_forgetting_ratio, _past_verdicts, False),
)
"""(metric, verdicts that it reads, True if it is defined for a Functionality Extension turn)."""
_SETTING_METRICS: Mapping[str, MetricRules] = {
    DYNAMIC: (*METRICS, (instruction_following_efficiency, _conversation_verdicts, False)),
    TWO_ROUND: METRICS[:1],
}
"""Setting -> its metrics, if they differ from `METRICS`."""


def score(request: ScoreRequest) -> tuple[Score, ...]:
    """Return the scores of each episode of one sample of a problem."""
    return tuple(row for played in request.played for row in _episode_scores(request, played))


def due(setting: str, options: Mapping[str, str], dialog: Dialog) -> Due:
    """Return the scores that a dialog must have.

    For a static dialog, this is the accuracy of every turn. For a dynamic one, these are all
    metrics of the first turn, since the tests decide whether there are more turns.
    """
    if setting == DYNAMIC:
        first = frozenset((1, metric.name) for metric, _, _ in _SETTING_METRICS[DYNAMIC])
        most = most_rounds(dialog.instruction_ids)
        return Due(most, first, is_exact=False, usual=max(1, round(USUAL_SHARE * most)))
    turns = dialog.generated_turns
    return Due(
        len(turns), frozenset((turn, instruction_accuracy.name) for turn in turns), turns=turns
    )


def scored_rounds(setting: str, dialog: Dialog, episode: Episode) -> tuple[Round, ...]:
    """Return the turns to score: those of the dialog, or those that a dynamic dialogue played."""
    ids = dialog.instruction_ids
    if setting == DYNAMIC:
        instruction_ids = tuple(
            round_.instruction_id for round_ in review_rounds(episode.messages)
        ) or (BASE_INSTRUCTION,)
        return tuple(
            Round(name, tuple(dict.fromkeys(instruction_ids[:turn])))
            for turn, name in enumerate(instruction_ids, 1)
        )
    if setting == TWO_ROUND:
        return tuple(Round(name, (name,)) for name in ids)
    return tuple(Round(name, tested_instructions(ids, turn)) for turn, name in enumerate(ids, 1))


def _episode_scores(request: ScoreRequest, played: Played) -> tuple[Score, ...]:
    """Return one score for each turn and metric; a missing value has its reason instead."""
    rounds = scored_rounds(request.setting, played.dialog, played.episode)
    verdicts = {(verdict.turn, verdict.instruction_id): verdict for verdict in played.verdicts}
    by_turn = _turn_verdicts(rounds, verdicts)

    def make_score(turn: int, metric: TurnMetric, needed_verdicts: NeededVerdicts) -> Score:
        missing = worst_of(
            {
                played.missing_result(verdicts.get(key), key[0])
                for key in needed_verdicts(rounds, turn)
            }
        )
        metric_value = metric(by_turn, turn) if missing is None else missing
        result = UnscoredReason.NOTHING_TO_FORGET if metric_value is None else metric_value
        return request.row(
            played, metric, result, turn=turn, instruction_id=rounds[turn - 1].instruction_id
        )

    return tuple(
        make_score(turn, metric, needed_verdicts)
        for turn, round_ in enumerate(rounds, 1)
        for metric, needed_verdicts, on_extension in _SETTING_METRICS.get(request.setting, METRICS)
        if on_extension or round_.instruction_id != FUNCTIONALITY_EXTENSION
    )


def _turn_verdicts(
    rounds: Sequence[Round], verdicts: Mapping[tuple[int, str], TestVerdict]
) -> tuple[TurnVerdicts, ...]:
    """Return the verdicts by turn.

    A timeout is a failure. Missing verdicts are left out, and no metric that reads one is called.
    """
    passes = {Outcome.PASSED: True, Outcome.FAILED: False, Outcome.TIMEOUT: False}
    outcomes = {key: verdict.outcome for key, verdict in verdicts.items()}
    return tuple(
        TurnVerdicts(
            instruction_id=round_.instruction_id,
            passed={
                name: passes[outcomes[turn, name]]
                for name in round_.instructions
                if outcomes.get((turn, name)) in passes
            },
        )
        for turn, round_ in enumerate(rounds, 1)
    )


_OTHER_INTERVALS: Columns = (
    interval("ca_strict", conversation_accuracy_strict.name)
    | interval("ca_fraction", conversation_accuracy_fraction.name)
    | interval("ifr", instruction_forgetting_ratio.name)
)
_N = counts("n", instruction_accuracy.name, UNSCORED, NOT_APPLICABLE)
_OTHER_N: Columns = counts(
    "n_ca", conversation_accuracy_strict.name, UNSCORED, NOT_APPLICABLE
) | counts("n_ifr", instruction_forgetting_ratio.name, UNSCORED, NOT_APPLICABLE)
_RUN = result_columns("run_id benchmark model setting dataset_version level")
_LAST = result_columns("sandbox isolated task_share")

TURNS = WideTable(
    name="codeif_turns",
    grain="One row per run x level x axis (turn, strategy_slot, round_pair) x position on the axis."
    " Level 'all' exists only in runs of several levels.",
    key=("run_id", "level", "axis", "turn"),
    columns=_RUN
    | result_columns("axis")
    | {"turn": Column("position::bigint", "1-based position on the axis.")}
    | interval("ia", instruction_accuracy.name)
    | _OTHER_INTERVALS
    | interval("ife", instruction_following_efficiency.name)
    | _N
    | _OTHER_N
    | counts("n_ife", instruction_following_efficiency.name, UNSCORED, NOT_APPLICABLE)
    | _LAST,
    source=(
        "from results where benchmark = 'codeif' and axis in ('turn', 'strategy_slot', "
        "'round_pair')"
    ),
)
STRATEGIES = WideTable(
    name="codeif_strategies",
    grain="One row per run x level x strategy of a turn's instruction (`base` is the first "
    "request). Level 'all' exists only in runs of several levels.",
    key=("run_id", "level", "instruction_id"),
    columns=_RUN
    | {
        "instruction_id": Column(
            "position", "Strategy of the instruction; `base` is the first request."
        )
    }
    | interval("ia", instruction_accuracy.name)
    | _N
    | _OTHER_INTERVALS
    | _OTHER_N
    | _LAST,
    source="from results where benchmark = 'codeif' and axis = 'strategy'",
)
MARTS = (files("tasks.benchmarks.codeif") / "marts" / "codeif_groups.sql", TURNS, STRATEGIES)
