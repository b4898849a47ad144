"""Scores from verdicts, including the reason for each missing value, and result tables.

The `turn` of a score is the paper's turn plus one, in live and static settings. It is 0 for a
metric of the whole task.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files

from schemas.dialog import Dialog, Role
from schemas.episode import (
    ExecutionFeedback,
    Score,
    Step,
    StopReason,
    UnscoredReason,
    VerbalFeedback,
    reason_of,
    worst_of,
)
from schemas.problem import BASE_INSTRUCTION
from schemas.verdict import Outcome
from tasks.benchmarks.contract import Due, Played, ScoreRequest
from tasks.benchmarks.convcode.settings import LIVE, Replay, rounds
from tasks.benchmarks.convcode.stage import code_of
from tasks.metrics.iterative_generation import (
    contains_refined_code,
    mentions_reference,
    mrr,
    mrr_upstream,
    pass_at_1,
    pass_at_1_upstream,
    recall,
)
from tasks.metrics.registry import Metric
from warehouse.wide_tables import (
    NOT_APPLICABLE,
    UNSCORED,
    Column,
    WideTable,
    counts,
    interval,
    mean,
    result_columns,
)

BY_TURN = (pass_at_1, pass_at_1_upstream)
LEAKAGE = (mentions_reference, contains_refined_code)
METRICS: tuple[str, ...] = tuple(m.name for m in (mrr, recall, *BY_TURN, mrr_upstream, *LEAKAGE))
WHOLE_TASK = (mrr.name, mrr_upstream.name, recall.name)
IMPLICATIONS: tuple[tuple[str, float, str, float], ...] = (
    (pass_at_1.name, 1.0, pass_at_1_upstream.name, 1.0),
    (pass_at_1_upstream.name, 0.0, pass_at_1.name, 0.0),
    (mrr.name, 1.0, mrr_upstream.name, 1.0),
    (mrr.name, 1.0, recall.name, 1.0),
    (mrr.name, 0.0, recall.name, 0.0),
    (recall.name, 0.0, mrr_upstream.name, 0.0),
)

USUAL_SHARE = 0.6

State = bool | UnscoredReason
"""True if the code after a turn passes, False if not, else the reason why it is unknown."""
Rater = Callable[[Sequence[bool]], float]


@dataclass(frozen=True)
class Task:
    """All turns of one sample of a problem, starting with the paper's turn 0."""

    states: tuple[State, ...]
    credited_from: int | None = None
    """First turn that counts as passed because the reference model has already solved the task.

    None in live settings, or if the reference model solved nothing.
    """
    logged_first: State | None = None
    """State of the reference model's first answer. None in live settings."""

    def upstream_states(self, turn: int) -> tuple[State, ...]:
        """Return the states from which the published scripts compute Pass@1 of a turn.

        In a replay, the scripts use the reference model's first answer in place of turn 0.
        """
        if self.logged_first is None or turn == 0:
            return self.states
        return (self.logged_first, *self.states[1:])


def score(request: ScoreRequest) -> tuple[Score, ...]:
    """Return Pass@1 of every turn, MRR and Recall of the task, and leakage of expert feedback."""
    return tuple(_live(request) if request.setting in LIVE else _static(request))


def due(setting: str, options: Mapping[str, str], dialog: Dialog) -> Due:
    """Return the scores of the dialog's episodes.

    Feedback may end an episode before its last round.
    """
    n_rounds = rounds(setting, options)
    if setting in LIVE:
        turns, whole = tuple(range(n_rounds)), True
    else:
        replay = Replay.of(dialog)
        turns, whole = replay.turns_of(dialog), replay.iteration(dialog) == 0
    by_turn = {(turn + 1, metric.name) for turn in turns for metric in BY_TURN}
    return Due(
        n_rounds,
        frozenset(by_turn | {(0, name) for name in WHOLE_TASK if whole}),
        is_exact=False,
        usual=_usual(setting, n_rounds),
    )


def _usual(setting: str, n_rounds: int) -> int:
    """Return the typical number of rounds, for estimates.

    Half of the tasks are solved on the way (Tables 3 and 4), and the others use all rounds. Without
    feedback from tests or an expert, a dialogue ends at the first code that compiles.
    """
    feedback, mute = LIVE.get(setting), (VerbalFeedback.NONE, VerbalFeedback.NOVICE)
    if (
        feedback is not None
        and feedback.execution is ExecutionFeedback.NONE
        and feedback.verbal in mute
    ):
        return 1
    return 1 + round(USUAL_SHARE * (n_rounds - 1))


def _live(request: ScoreRequest) -> Iterator[Score]:
    for played in request.played:
        task = Task(_states(played, rounds(request.setting, request.options)))
        yield from _turns(request, played, task, range(len(task.states)))
        yield from _whole_task(request, played, task)
        if LIVE[request.setting].verbal is VerbalFeedback.EXPERT:
            yield from _leakage(request, played)


def _static(request: ScoreRequest) -> Iterator[Score]:
    """Score the turns of a task, each of which is an episode.

    Turns without a request and the whole task are scored on the episode of turn 0.
    """
    by_turn = {Replay.iteration(played.dialog): played for played in request.played}
    task = _replayed(by_turn)
    for turn, played in by_turn.items():
        yield from _turns(request, played, task, Replay.of(played.dialog).turns_of(played.dialog))
        if turn == 0:
            yield from _whole_task(request, played, task)


def _replayed(by_turn: Mapping[int, Played]) -> Task:
    replay = Replay.of(next(iter(by_turn.values())).dialog)
    credited_from = replay.credited_from

    def state(turn: int) -> State:
        if turn not in replay.requested_turns:
            return credited_from is not None and turn >= credited_from
        # A requested turn without an episode is a fault of the infrastructure.
        return _states(by_turn[turn], 1)[0] if turn in by_turn else UnscoredReason.INFRA

    return Task(
        tuple(state(turn) for turn in range(replay.n_turns)),
        credited_from,
        logged_first=replay.solved_at == 0,
    )


def _states(played: Played, n_rounds: int) -> tuple[State, ...]:
    """Return the state after each round. After a finished dialogue, its last code counts."""
    verdicts = {verdict.turn: verdict for verdict in played.verdicts}
    answered = max(
        (step.turn for step in played.episode.messages if step.role is Role.ASSISTANT), default=0
    )
    ended_well = played.episode.stop_reason in (StopReason.FINISHED, StopReason.TURN_LIMIT)

    def state(turn: int) -> State:
        if turn > answered > 0 and ended_well:
            return state(answered)
        verdict = verdicts.get(turn)
        missing = played.missing_result(verdict, turn)
        return missing or (verdict is not None and verdict.outcome is Outcome.PASSED)

    return tuple(state(turn) for turn in range(1, n_rounds + 1))


def _turns(
    request: ScoreRequest, played: Played, task: Task, turns: Iterable[int]
) -> Iterator[Score]:
    for turn in turns:
        for metric, states, read in (
            (pass_at_1, task.states, (turn,)),
            (pass_at_1_upstream, task.upstream_states(turn), (0, turn)),
        ):
            value = _value(partial(metric, turn=turn), states, read)
            yield _row(request, played, turn + 1, metric, value)


def _whole_task(request: ScoreRequest, played: Played, task: Task) -> Iterator[Score]:
    read = range(len(task.states))
    for metric, rate in (
        (mrr, mrr),
        (recall, recall),
        (mrr_upstream, partial(mrr_upstream, credited_from=task.credited_from)),
    ):
        yield _row(request, played, 0, metric, _value(rate, task.states, read))


def _value(rate: Rater, states: Sequence[State], read: Iterable[int]) -> float | UnscoredReason:
    """Return the value if it is the same no matter if the unmeasured turns passed or failed.

    No metric decreases when one more turn passes, so it suffices to try none and all of them.
    """
    least = rate([state is True for state in states])
    if least == rate([state is not False for state in states]):
        return least
    return worst_of({states[turn] for turn in read}) or UnscoredReason.NO_ANSWER


def _leakage(request: ScoreRequest, played: Played) -> Iterator[Score]:
    """Score the leakage of each feedback by an expert. Rounds without such feedback have no row."""
    for step in played.episode.messages:
        if (
            step.role is Role.USER
            and step.feedback is not None
            and step.feedback.verbal is not None
        ):
            yield _row(
                request,
                played,
                step.turn,
                mentions_reference,
                mentions_reference(step.feedback.verbal),
            )
            yield _row(
                request,
                played,
                step.turn,
                contains_refined_code,
                _refined_code_leakage(request, played, step, step.feedback.verbal),
            )


def _refined_code_leakage(
    request: ScoreRequest, played: Played, step: Step, feedback: str
) -> float | UnscoredReason:
    previous, refined = played.episode.answer(step.turn - 1), played.episode.answer(step.turn)
    if refined is None or previous is None:
        return reason_of(played.episode, step.turn)
    return contains_refined_code(
        feedback,
        code_of(request.problem, request.options, previous),
        code_of(request.problem, request.options, refined),
    )


def _row(
    request: ScoreRequest,
    played: Played,
    turn: int,
    metric: Metric[..., float],
    value: float | UnscoredReason,
) -> Score:
    return request.row(
        played, metric, value, turn=turn, instruction_id=BASE_INSTRUCTION if turn else None
    )


_OF_RUN = ", ".join(
    f"'{metric.name}'"
    for metric in (mrr, mrr_upstream, recall, mentions_reference, contains_refined_code)
)
_BOTH = (UNSCORED, NOT_APPLICABLE)
_FOLDER = files("tasks.benchmarks.convcode") / "marts"

SETTINGS_TABLE = WideTable(
    name="convcode_settings",
    grain="One row per run x turn in the paper's count (0: the first answer). Values of the"
    " whole run are repeated in each row.",
    key=("run_id", "turn"),
    columns=result_columns("run_id benchmark model setting")
    | {
        "part": Column(
            r"regexp_extract(setting, '^[^.]*\.(\w+)\[', 1)",
            "Part of the benchmark: live or static.",
        ),
        "feedback": Column(
            r"regexp_extract(setting, '\[(.*)\]$', 1)", "Kinds of feedback that the setting gives."
        ),
    }
    | result_columns("dataset_version")
    | {"options": Column("episode_options", "Options of the dialogues, as JSON.")}
    | result_columns("reference_model")
    | {
        "turns": Column("turns", "Last turn of the run, in the paper's count."),
        "turn": Column("turn", "Turn in the paper's count: 0 is the first answer."),
    }
    | interval("pass_at_1", pass_at_1.name)
    | counts("n", pass_at_1.name, *_BOTH)
    | mean("pass_at_1_upstream", pass_at_1_upstream.name)
    | interval("mrr", mrr.name)
    | counts("n_mrr", mrr.name, *_BOTH)
    | mean("mrr_upstream", mrr_upstream.name)
    | interval("recall", recall.name)
    | counts("n_recall", recall.name, *_BOTH)
    | result_columns(
        "n_feedback n_verbal_feedback feedback_calls feedback_input_tokens feedback_output_tokens"
        " feedback_usd"
    )
    | result_columns(
        "n_feedback_in_all n_verbal_feedback_in_all feedback_calls_in_all"
        " feedback_input_tokens_in_all"
    )
    | result_columns("feedback_output_tokens_in_all feedback_usd_in_all")
    | mean("mentions_reference", mentions_reference.name)
    | counts("n_mentions_reference", mentions_reference.name)
    | mean("contains_refined_code", contains_refined_code.name)
    | counts("n_contains_refined_code", contains_refined_code.name, UNSCORED)
    | result_columns("sandbox isolated task_share"),
    source=f"""from (
    select
        results.*, feedback.* exclude (run_id),
        max(feedback.turn) over (partition by feedback.run_id) as turns
    from convcode_feedback as feedback
    inner join results on feedback.run_id = results.run_id
        and (
            (
                results.axis = 'turn' and results.position = feedback.turn::varchar
                and results.metric not in ({_OF_RUN})
            )
            or (results.axis = 'all' and results.metric in ({_OF_RUN}))
        )
)""",
    base=_FOLDER / "convcode_feedback.sql",
)
MARTS = (_FOLDER / "convcode_groups.sql", _FOLDER / "convcode_feedback.sql", SETTINGS_TABLE)
