"""Scores of dialogues (turn 0) and of replies, from verdicts and judgements; result tables.

The result tables are groups of the table `results`, and Table 1 of the paper.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

from schemas.dialog import Dialog, Role
from schemas.episode import Score, StopReason, UnscoredReason, reason_of, worst_of
from schemas.verdict import JudgeVerdict, Outcome, TestVerdict
from tasks.benchmarks.contract import Due, Played, ScoreRequest, missing_rating
from tasks.benchmarks.setting import Options
from tasks.benchmarks.talk2code.languages import LANGUAGES
from tasks.benchmarks.talk2code.measures import (
    BY_ENTITIES,
    BY_MEANING,
    ENTITIES,
    EXPERIENCE,
    USER_LEVEL,
    entity_scores,
    entity_series,
    level_is_judged,
    meaning_scores,
    meaning_series,
    simulated_messages,
)
from tasks.benchmarks.talk2code.options import turns_of
from tasks.benchmarks.talk2code.settings import (
    BY_TURN,
    SETTINGS,
    delivery,
    is_interactive,
    last_round,
)
from tasks.benchmarks.talk2code.stage import ENTRY_POINT, LANGUAGE, LEVEL
from tasks.benchmarks.talk2code.user.hidden_code import HiddenCode
from tasks.benchmarks.talk2code.user.persona_user import LEAKS, WORDINGS
from tasks.metrics.intent_alignment import (
    entity_match_density,
    entity_satisfaction,
    semantic_probability,
    semantic_satisfaction,
)
from tasks.metrics.registry import Metric
from tasks.metrics.repository_dialogue import (
    RATINGS,
    delivery_rate,
    interaction_experience,
    level_kept,
    pass_rate,
    reference_disclosure,
    success_rate,
    user_leakage,
)
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

CODE = (pass_rate, success_rate)
INTERACTION = (delivery_rate, user_leakage, reference_disclosure)
EXPERIENCES = (interaction_experience, *RATINGS.values())
METRICS = tuple(
    metric.name
    for metric in (*CODE, *EXPERIENCES, *BY_ENTITIES, *BY_MEANING, *INTERACTION[:2], level_kept)
)
RANGES: Mapping[str, tuple[float, float]] = {metric.name: (1.0, 5.0) for metric in EXPERIENCES} | {
    entity_satisfaction.name: (-1.0, 1.0),
    semantic_satisfaction.name: (-7.0, 7.0),
}
IMPLICATIONS = (
    (success_rate.name, 1.0, pass_rate.name, 1.0),
    (delivery_rate.name, 0.0, pass_rate.name, 0.0),
)
Value = float | UnscoredReason
Values = Mapping[Metric[..., float], Value] | Mapping[Metric[..., float | None], Value]


USUAL_SHARE = 0.7
"""Typical number of turns in an interactive dialogue, as a share of the maximum."""


def due(setting: str, options: Options, dialog: Dialog) -> Due:
    """Return the scores that a dialogue must have, and the rounds that the model answers.

    The model answers all rounds, the last one, or none.
    """
    definition = SETTINGS[setting]
    metrics = (
        *(CODE if definition.runs_programs else ()),
        *(EXPERIENCES if EXPERIENCE.name in definition.rubrics else ()),
        *(BY_ENTITIES if ENTITIES.name in definition.rubrics else ()),
        *(BY_MEANING if definition.needs_embedder else ()),
        *(INTERACTION if is_interactive(setting) else ()),
        *(
            (level_kept,)
            if USER_LEVEL.name in definition.rubrics and level_is_judged(dialog, options)
            else ()
        ),
    )
    scores = frozenset((0, metric.name) for metric in metrics)
    if is_interactive(setting):
        return Due(
            turns_of(options),
            scores,
            is_exact=False,
            usual=max(1, round(USUAL_SHARE * turns_of(options))),
        )
    turns = (last_round(dialog),) if definition.runs_programs else ()
    replies = (turn.turn for turn in dialog.turns if turn.role is Role.ASSISTANT)
    by_turn = frozenset(
        (turn, name) for turn in replies for name in definition.metrics if name in BY_TURN
    )
    return Due(len(turns), scores | by_turn, turns=turns)


def score(request: ScoreRequest) -> Sequence[Score]:
    """Return the scores of each dialogue with one sample of a task."""
    dialogue_scores = [
        request.row(played, *metric_value)
        for played in request.played
        for metric_value in _scores(request, played)
    ]
    by_turn = (
        request.row(played, metric, value, turn=turn)
        for played in request.played
        for metric, values in _series(request, played).items()
        for turn, value in values.items()
    )
    return [*dialogue_scores, *by_turn]


def _series(
    request: ScoreRequest, played: Played
) -> Mapping[Metric[..., float], Mapping[int, Value]]:
    """Return the series of Figure 4 that the setting measures, with a value for each reply.

    They are the entity match density (rho_k) and the semantic probability (P_k).
    """
    setting = SETTINGS[request.setting]
    densities = (
        {entity_match_density: entity_series(request, played)}
        if ENTITIES.name in setting.rubrics
        else {}
    )
    return densities | (
        {semantic_probability: meaning_series(request, played)} if setting.needs_embedder else {}
    )


def _scores(
    request: ScoreRequest, played: Played
) -> Iterator[tuple[Metric[..., float] | Metric[..., float | None], Value]]:
    setting = SETTINGS[request.setting]
    if setting.runs_programs:
        yield from _code(request, played).items()
    if EXPERIENCE.name in setting.rubrics:
        yield from _experience(played.judgements).items()
    if ENTITIES.name in setting.rubrics:
        yield from entity_scores(request, played).items()
    if setting.needs_embedder:
        yield from meaning_scores(request, played).items()
    if is_interactive(request.setting):
        yield from _interaction(request, played).items()
    if USER_LEVEL.name in setting.rubrics and level_is_judged(played.dialog, request.options):
        yield level_kept, _level(played)


def _code(request: ScoreRequest, played: Played) -> Values:
    n_cases = len(request.problem.instructions[0].suite.tests)
    if is_interactive(request.setting) and _has_no_replies_left(request, played):
        return {metric: metric(0, n_cases) for metric in CODE}
    missing = worst_of(
        {played.missing_result(verdict, verdict.turn) for verdict in played.verdicts}
    )
    if missing or not played.verdicts:
        return dict.fromkeys(CODE, missing or UnscoredReason.INFRA)
    n_passed = sum(
        _n_passed(verdict, n_cases // len(played.verdicts)) for verdict in played.verdicts
    )
    return {metric: metric(n_passed, n_cases) for metric in CODE}


def _has_no_replies_left(request: ScoreRequest, played: Played) -> bool:
    """Return True if the model used all its replies without a delivery.

    This is the model's failure, so the code scores 0 without a test run.
    """
    has_ended = played.episode.stop_reason is StopReason.TURN_LIMIT
    return has_ended and delivery(played.dialog, played.episode, request.options)[1] is None


def _n_passed(verdict: TestVerdict, n_cases: int) -> int:
    return n_cases if verdict.outcome is Outcome.PASSED else verdict.n_passed or 0


def _experience(judgements: Sequence[JudgeVerdict]) -> Values:
    judgement_by_dimension = {
        judgement.dimension: judgement
        for judgement in judgements
        if judgement.rubric == EXPERIENCE.name
    }
    values = {dimension: _rating(judgement_by_dimension.get(dimension)) for dimension in RATINGS}
    ratings = [value for value in values.values() if not isinstance(value, UnscoredReason)]
    missing = worst_of({value for value in values.values() if isinstance(value, UnscoredReason)})
    return {
        interaction_experience: missing or interaction_experience(ratings),
        **{RATINGS[d]: v for d, v in values.items()},
    }


def _rating(judgement: JudgeVerdict | None) -> Value:
    if judgement is None or judgement.value is None:
        return missing_rating(judgement)
    return RATINGS[judgement.dimension](judgement.value)


def _interaction(request: ScoreRequest, played: Played) -> Values:
    """Return the scores of the interaction.

    These are the delivery of code, the share of the simulated user's drafts that leaked the hidden
    program, and how much of the task its messages disclosed.
    """
    turn, code = delivery(played.dialog, played.episode, request.options)
    has_ended = played.episode.stop_reason in (StopReason.FINISHED, StopReason.TURN_LIMIT)
    labels = [
        dict(step.labels)
        for step in played.episode.messages
        if step.role is Role.USER and step.turn > 1
    ]
    n_wordings, n_leaks = (
        sum(int(label_values[name]) for label_values in labels) for name in (WORDINGS, LEAKS)
    )
    return {
        delivery_rate: delivery_rate(code is not None)
        if has_ended or code
        else reason_of(played.episode, turn),
        user_leakage: user_leakage(n_leaks, n_wordings) if n_wordings else UnscoredReason.UNDEFINED,
        reference_disclosure: _disclosure(request, played)
        if n_wordings
        else UnscoredReason.UNDEFINED,
    }


def _disclosure(request: ScoreRequest, played: Played) -> float:
    """Return the share of the reference in the user's messages, the first message included."""
    labels = dict(played.dialog.labels)
    problem = request.problem
    hidden_code = HiddenCode(
        problem.reference_code, LANGUAGES[labels[LANGUAGE]], labels[ENTRY_POINT], problem.prompt
    )
    messages = [step.content for step in played.episode.messages if step.role is Role.USER]
    return reference_disclosure(hidden_code.disclosed_share(messages))


def _level(played: Played) -> Value:
    """Return 1 if the judge guessed the simulated user's level, else 0.

    The value is undefined if the simulated user wrote no message.
    """
    if not simulated_messages(played.episode):
        return UnscoredReason.UNDEFINED
    verdict = next(
        (judgement for judgement in played.judgements if judgement.rubric == USER_LEVEL.name), None
    )
    if verdict is None or verdict.label is None:
        return missing_rating(verdict)
    return level_kept(verdict.label, dict(played.dialog.labels)[LEVEL])


_MEASURES = {
    "tp": "test_case_pass_rate",
    "sr": "success_rate",
    "qd": "question_design",
    "cl": "cognitive_load",
    "if_": "interaction_fluency",
    "ua": "user_adaptability",
    "ce": "communication_efficiency",
    "ls": "learning_support",
    "experience": "interaction_experience",
    "ec": "entity_consistency",
    "es": "entity_satisfaction",
    "sc": "semantic_consistency",
    "ss": "semantic_satisfaction",
    "delivered": "delivery_rate",
    "user_leakage": "user_leakage",
    "level_kept": "level_kept",
    "disclosed": "reference_disclosure",
}
"""Column of the paper's Table 1 -> metric that the column shows."""


def _measure_columns() -> Columns:
    columns: Columns = {}
    for name, metric in _MEASURES.items():
        columns |= interval(name, metric) | counts(
            f"n_{name.rstrip('_')}", metric, UNSCORED, NOT_APPLICABLE
        )
    return columns


LEVELS = WideTable(
    name="talk2code_levels",
    grain="One row per run x axis (level, archetype, language, all) x value of the axis: the "
    "paper's Table 1, with n of each mean.",
    key=("run_id", "axis", "level", "archetype", "language"),
    columns=result_columns("run_id benchmark model setting")
    | {
        "track": Column(
            r"regexp_extract(setting, '^[^.]*\.([a-z]+)', 1)",
            "Track of the setting: direct, interactive or golden.",
        )
    }
    | result_columns("dataset_version episode_options scoring_options axis")
    | {
        "level": Column(
            "level", "Programming level of the user; NULL where the axis is `language` or `all`."
        ),
        "archetype": Column(
            "case axis when 'archetype' then position end",
            "Archetype of the user within the level.",
        ),
        "language": Column(
            "case axis when 'language' then position end", "Programming language of the dialogue."
        ),
        "n_dialogues": Column("max(n_dialogs)", "Dialogues of the group."),
    }
    | _measure_columns()
    | result_columns("sandbox isolated task_share"),
    source=(
        "from results where benchmark = 'talk2code' and axis in ('all', 'level', 'archetype', "
        "'language')"
    ),
)
MARTS = (files("tasks.benchmarks.talk2code") / "marts" / "talk2code_groups.sql", LEVELS)
