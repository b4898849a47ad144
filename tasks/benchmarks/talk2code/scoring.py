"""Turns verdicts and judgements into scores of whole dialogues (turn 0)."""

from collections.abc import Iterator, Mapping, Sequence

from schemas.dialog import Dialog, Role
from schemas.episode import StopReason
from schemas.score import Score, UnscoredReason, reason_of, worst_of
from schemas.verdict import JudgeVerdict, Outcome, TestVerdict
from tasks.benchmarks.contract import Due, Played, ScoreRequest
from tasks.benchmarks.setting import Options
from tasks.benchmarks.talk2code.languages import LANGUAGES
from tasks.benchmarks.talk2code.measures.alignment import (
    BY_ENTITIES,
    BY_MEANING,
    entity_scores,
    entity_series,
    meaning_scores,
    meaning_series,
)
from tasks.benchmarks.talk2code.measures.rubrics import (
    ENTITIES,
    EXPERIENCE,
    USER_LEVEL,
    level_is_judged,
    spoken,
)
from tasks.benchmarks.talk2code.options import turns_of
from tasks.benchmarks.talk2code.programs import delivery, last_round
from tasks.benchmarks.talk2code.settings import BY_TURN, SETTINGS, is_interactive
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
from tasks.metrics.user_dialogue import (
    RATINGS,
    delivery_rate,
    interaction_experience,
    level_kept,
    pass_rate,
    reference_disclosure,
    success_rate,
    user_leakage,
)

CODE = (pass_rate, success_rate)
TALK = (delivery_rate, user_leakage, reference_disclosure)
EXPERIENCES = (interaction_experience, *RATINGS.values())
METRICS = tuple(
    metric.name
    for metric in (*CODE, *EXPERIENCES, *BY_ENTITIES, *BY_MEANING, *TALK[:2], level_kept)
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
"""Of the turns that an interactive dialogue may have, those that it usually has before the user is content."""


def due(setting: str, options: Options, dialog: Dialog) -> Due:
    """The scores of a whole dialogue, and the rounds that the model under test answers: all, the last one, or none."""
    chosen = SETTINGS[setting]
    metrics = (
        *(CODE if chosen.runs_programs else ()),
        *(EXPERIENCES if EXPERIENCE.name in chosen.rubrics else ()),
        *(BY_ENTITIES if ENTITIES.name in chosen.rubrics else ()),
        *(BY_MEANING if chosen.needs_embedder else ()),
        *(TALK if is_interactive(setting) else ()),
        *(
            (level_kept,)
            if USER_LEVEL.name in chosen.rubrics and level_is_judged(dialog, options)
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
    turns = (last_round(dialog),) if chosen.runs_programs else ()
    replies = (turn.turn for turn in dialog.turns if turn.role is Role.ASSISTANT)
    by_turn = frozenset(
        (turn, name) for turn in replies for name in chosen.metrics if name in BY_TURN
    )
    return Due(len(turns), scores | by_turn, turns=turns)


def score(request: ScoreRequest) -> Sequence[Score]:
    """The scores of each dialogue with one sample of a task."""
    whole = [
        request.row(played, *one) for played in request.played for one in _scores(request, played)
    ]
    by_turn = (
        request.row(played, metric, value, turn=turn)
        for played in request.played
        for metric, values in _series(request, played).items()
        for turn, value in values.items()
    )
    return [*whole, *by_turn]


def _series(
    request: ScoreRequest, played: Played
) -> Mapping[Metric[..., float], Mapping[int, Value]]:
    """Return rho_k and P_k of each reply (Figure 4), where the setting measures them."""
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
        yield from _talk(request, played).items()
    if USER_LEVEL.name in setting.rubrics and level_is_judged(played.dialog, request.options):
        yield level_kept, _level(played)


def _code(request: ScoreRequest, played: Played) -> Values:
    n_cases = len(request.problem.instructions[0].suite.tests)
    if is_interactive(request.setting) and _used_up(request, played):
        return {metric: metric(0, n_cases) for metric in CODE}
    missing = worst_of({_missing(verdict, played) for verdict in played.verdicts})
    if missing or not played.verdicts:
        return dict.fromkeys(CODE, missing or UnscoredReason.INFRA)
    n_passed = sum(
        _n_passed(verdict, n_cases // len(played.verdicts)) for verdict in played.verdicts
    )
    return {metric: metric(n_passed, n_cases) for metric in CODE}


def _used_up(request: ScoreRequest, played: Played) -> bool:
    """Whether the model has had all its replies and delivered in none: that is its own failure, and no test has to say so."""
    ended = played.episode.stop_reason is StopReason.TURN_LIMIT
    return ended and delivery(played.dialog, played.episode, request.options)[1] is None


def _n_passed(verdict: TestVerdict, n_cases: int) -> int:
    return n_cases if verdict.outcome is Outcome.PASSED else verdict.n_passed or 0


def _missing(verdict: TestVerdict, played: Played) -> UnscoredReason | None:
    if verdict.outcome is Outcome.UNSCORED:
        return UnscoredReason.TOOLCHAIN_MISSING
    if verdict.outcome is Outcome.INFRA:
        return UnscoredReason.INFRA
    return reason_of(played.episode, verdict.turn) if verdict.outcome is Outcome.ERROR else None


def _experience(judgements: Sequence[JudgeVerdict]) -> Values:
    rated = {one.dimension: one for one in judgements if one.rubric == EXPERIENCE.name}
    values = {dimension: _rating(rated.get(dimension)) for dimension in RATINGS}
    known = [value for value in values.values() if not isinstance(value, UnscoredReason)]
    missing = worst_of({value for value in values.values() if isinstance(value, UnscoredReason)})
    return {
        interaction_experience: missing or interaction_experience(known),
        **{RATINGS[d]: v for d, v in values.items()},
    }


def _rating(judgement: JudgeVerdict | None) -> Value:
    if judgement is None or judgement.value is None:
        said = None if judgement is None else judgement.unscored_reason
        return UnscoredReason.INFRA if said is None else UnscoredReason(said)
    return RATINGS[judgement.dimension](judgement.value)


def _talk(request: ScoreRequest, played: Played) -> Values:
    """Return whether the model delivered, how often the user was asked for another wording, and what the user disclosed."""
    turn, code = delivery(played.dialog, played.episode, request.options)
    ended = played.episode.stop_reason in (StopReason.FINISHED, StopReason.TURN_LIMIT)
    labels = [
        dict(step.labels)
        for step in played.episode.messages
        if step.role is Role.USER and step.turn > 1
    ]
    n_wordings, n_leaks = (sum(int(one[name]) for one in labels) for name in (WORDINGS, LEAKS))
    return {
        delivery_rate: delivery_rate(code is not None)
        if ended or code
        else reason_of(played.episode, turn),
        user_leakage: user_leakage(n_leaks, n_wordings) if n_wordings else UnscoredReason.UNDEFINED,
        reference_disclosure: _disclosure(request, played)
        if n_wordings
        else UnscoredReason.UNDEFINED,
    }


def _disclosure(request: ScoreRequest, played: Played) -> float:
    """Return the share of the reference in the user's own messages; the golden dialogue's first message counts with them."""
    labels = dict(played.dialog.labels)
    problem = request.problem
    hidden = HiddenCode(
        problem.reference_code, LANGUAGES[labels[LANGUAGE]], labels[ENTRY_POINT], problem.prompt
    )
    messages = [step.content for step in played.episode.messages if step.role is Role.USER]
    return reference_disclosure(hidden.disclosed(messages))


def _level(played: Played) -> Value:
    """Whether the simulated user's words were taken for words of its level. A user who said no words of its own has no level."""
    if not spoken(played.episode):
        return UnscoredReason.UNDEFINED
    judged = next((one for one in played.judgements if one.rubric == USER_LEVEL.name), None)
    if judged is None or judged.label is None:
        said = None if judged is None else judged.unscored_reason
        return UnscoredReason.INFRA if said is None else UnscoredReason(said)
    return level_kept(judged.label, dict(played.dialog.labels)[LEVEL])
