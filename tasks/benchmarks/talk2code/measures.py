"""Measures of a dialogue: judges' ratings, entities, and similarity of replies to the reference.

Rubrics rate six dimensions of a dialogue, the entities of a text, and a user's level. The paper
calls the similarity, by entities and by meaning, the objective evaluation.

Entities are what texts name: things of the task, values, data types, rules, operations, errors. A
judge or a person lists the entities of each reply (K_A in the paper) and those of the reference
(K_true).
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.dialog import Dialog, ExpertiseLevel, Role
from schemas.episode import Episode, Step, UnscoredReason, worst_of
from schemas.problem import Problem
from schemas.verdict import JudgeVerdict
from tasks.benchmarks.advanced import JudgeRequest
from tasks.benchmarks.contract import Played, ScoreRequest, missing_rating
from tasks.benchmarks.setting import Options
from tasks.benchmarks.talk2code.options import (
    ENTITY_SOURCE,
    LEVEL_SAMPLE,
    REFERENCE_TEXT,
    SATISFACTION,
    counting_of,
    probability_of,
)
from tasks.benchmarks.talk2code.stage import ARCHETYPE, LEVEL, REFERENCE_ENTITIES
from tasks.benchmarks.talk2code.stage import ENTITIES as ENTITIES_LABEL
from tasks.judging.rubric import JudgeRun, Rubric
from tasks.language.prompt import quote_messages, quote_text
from tasks.metrics.intent_alignment import (
    entity_consistency,
    entity_match_density,
    entity_satisfaction,
    match_densities,
    probability,
    semantic_consistency,
    semantic_probability,
    semantic_satisfaction,
)
from tasks.metrics.registry import Metric

if TYPE_CHECKING:
    from tasks.language.embedding import Vector


REFERENCE = 0
"""Round number that represents the reference."""
Sets = Mapping[int, frozenset[str]]
"""Round -> entities of its reply. The key `REFERENCE` has the reference's entities."""


class Entities(Frozen):
    """What a text names."""

    entities: tuple[Annotated[str, Field(max_length=40)], ...] = Field(max_length=20)


def entity_set(names: Sequence[str]) -> frozenset[str]:
    """Normalise entities for comparison: lower case, single spaces."""
    return frozenset(" ".join(name.lower().split()) for name in names) - {""}


def reference_text(problem: Problem, options: Options) -> str:
    """Return the text to compare replies with: the reference program, or statement and program."""
    program = problem.reference_code.strip("\n")
    return program if options[REFERENCE_TEXT] == "answer" else f"{problem.prompt}\n\n{program}"


def noted_entities(dialog: Dialog, options: Options) -> Sets | None:
    """Return the entities that a person noted in a golden dialogue.

    Returns None if the option `entities` selects the judge, or if a reply has no note.
    """
    if options.get(ENTITY_SOURCE) != "notes":
        return None
    notes = {
        turn.turn: dict(turn.labels).get(ENTITIES_LABEL)
        for turn in dialog.turns
        if turn.role is Role.ASSISTANT
    }
    notes[REFERENCE] = dict(dialog.labels).get(REFERENCE_ENTITIES)
    if any(note is None for note in notes.values()):
        return None
    return {turn: frozenset(json.loads(note or "[]")) for turn, note in notes.items()}


BY_ENTITIES: tuple[Metric[..., float | None], ...] = (entity_consistency, entity_satisfaction)
BY_MEANING: tuple[Metric[..., float | None], ...] = (semantic_consistency, semantic_satisfaction)
RUBRIC = "entities"
Value = float | UnscoredReason


def entity_series(request: ScoreRequest, played: Played) -> dict[int, Value]:
    """Return round -> entity match density (rho_k) of its reply.

    The reason replaces a missing density.
    """
    replies, densities = _replies(played.episode), _densities(request, played)
    if isinstance(densities, UnscoredReason):
        return dict.fromkeys(replies, densities)
    return dict(zip(replies, map(entity_match_density, densities), strict=True))


def meaning_series(request: ScoreRequest, played: Played) -> dict[int, Value]:
    """Return round -> semantic probability (P_k) of its reply.

    The reason replaces a missing probability.
    """
    values = zip(_replies(played.episode), _probabilities(request, played), strict=True)
    return {
        turn: value if isinstance(value, UnscoredReason) else semantic_probability(value)
        for turn, value in values
    }


def _densities(request: ScoreRequest, played: Played) -> Sequence[float] | UnscoredReason:
    """Return the entity match density of each reply, or the reason why there is none."""
    replies = _replies(played.episode)
    sets = noted_entities(played.dialog, request.options) or _judged_sets(
        played.judgements, replies
    )
    if isinstance(sets, UnscoredReason):
        return sets
    densities = match_densities(sets[REFERENCE], [sets[turn] for turn in replies])
    return UnscoredReason.UNDEFINED if densities is None else densities


def entity_scores(request: ScoreRequest, played: Played) -> dict[Metric[..., float | None], Value]:
    """Return entity consistency (EC) and entity satisfaction (ES) of a dialogue."""
    densities = _densities(request, played)
    if isinstance(densities, UnscoredReason):
        return dict.fromkeys(BY_ENTITIES, densities)
    counting = counting_of(request.options)
    return {metric: _or_undefined(metric(densities, counting)) for metric in BY_ENTITIES}


def _judged_sets(
    judgements: Sequence[JudgeVerdict], replies: Mapping[int, str]
) -> Sets | UnscoredReason:
    """Return a judge's entity sets, or the reason why one is missing.

    A blank reply has no entities, and no judge is asked about it.
    """
    by_turn = {judgement.turn: judgement for judgement in judgements if judgement.rubric == RUBRIC}
    sets, missing = dict[int, frozenset[str]](), set[UnscoredReason]()
    for turn in (REFERENCE, *replies):
        judgement = by_turn.get(turn)
        if turn in replies and not replies[turn].strip():
            sets[turn] = frozenset()
        elif judgement is None or judgement.answer_json is None:
            missing.add(missing_rating(judgement))
        else:
            sets[turn] = entity_set(Entities.model_validate_json(judgement.answer_json).entities)
    return worst_of(missing) or sets


def texts_to_embed(request: ScoreRequest) -> Sequence[str]:
    """Return the reference text and all replies."""
    replies = (text for played in request.played for text in _replies(played.episode).values())
    return (reference_text(request.problem, request.options), *replies)


def meaning_scores(request: ScoreRequest, played: Played) -> dict[Metric[..., float | None], Value]:
    """Return semantic consistency (SC) and semantic satisfaction (SS) of a dialogue."""
    probabilities = tuple(_probabilities(request, played))
    missing = worst_of({value for value in probabilities if isinstance(value, UnscoredReason)})
    if missing:
        return dict.fromkeys(BY_MEANING, missing)
    values = [value for value in probabilities if not isinstance(value, UnscoredReason)]
    counting = counting_of(request.options)
    series = (
        [math.log(value) for value in values] if request.options[SATISFACTION] == "log" else values
    )
    return {
        semantic_consistency: _or_undefined(semantic_consistency(values, counting)),
        semantic_satisfaction: _or_undefined(semantic_satisfaction(series, counting)),
    }


def _probabilities(request: ScoreRequest, played: Played) -> Iterator[Value]:
    """Yield the semantic probability (P_k) of each reply.

    It is undefined for a blank reply. A text longer than the embedder's limit has no vector.
    """
    reference = request.vectors.get(reference_text(request.problem, request.options))
    for text in _replies(played.episode).values():
        vector = request.vectors.get(text)
        if not text.strip():
            yield UnscoredReason.UNDEFINED
        elif vector is None or reference is None:
            yield UnscoredReason.CONTEXT_LENGTH
        else:
            yield probability(_cosine(vector, reference), probability_of(request.options))


def _cosine(first: "Vector", second: "Vector") -> float:
    return float(first @ second)


def _replies(episode: Episode) -> dict[int, str]:
    """Return round -> reply, in order."""
    return {step.turn: step.content for step in episode.messages if step.role is Role.ASSISTANT}


def _or_undefined(value: float | None) -> Value:
    return UnscoredReason.UNDEFINED if value is None else value


_NAMES = {Role.USER: "user", Role.ASSISTANT: "assistant"}


def quote_dialogue(messages: Iterable[Step]) -> str:
    """Quote messages in a form that a message's own text cannot imitate."""
    return quote_messages((_NAMES[step.role], step.content) for step in messages)


class Experience(Frozen):
    """Six ratings."""

    QD: int = Field(ge=1, le=5)
    CL: int = Field(ge=1, le=5)
    IF: int = Field(ge=1, le=5)
    UA: int = Field(ge=1, le=5)
    CE: int = Field(ge=1, le=5)
    LS: int = Field(ge=1, le=5)


DIMENSIONS = tuple(Experience.model_fields)
_PACKAGE = "tasks.benchmarks.talk2code"


EXPERIENCE = Rubric.of_package(
    _PACKAGE,
    "experience",
    lambda case: {**case, "dialogue": quote_messages(case["dialogue"])},
    version="2",
    answer=Experience,
    values=lambda answer: answer.model_dump(),
    dimensions=DIMENSIONS,
    scope="dialogue",
    ranges=dict.fromkeys(DIMENSIONS, (1, 5)),
)


ENTITIES = Rubric.of_package(
    _PACKAGE,
    RUBRIC,
    lambda case: {"said": quote_text(case["said"])},
    version="2",
    answer=Entities,
    values=lambda answer: {"": float(len(entity_set(answer.entities)))},
)
"""Rubric of a text's entities.

Its prompt contains only the text, so that equal texts of different runs, dialogues and rounds need
one request.
"""


class UserLevel(Frozen):
    """How much a user knows."""

    level: ExpertiseLevel


def _quote_user(messages: Sequence[str]) -> str:
    return quote_messages(("user", text) for text in messages)


USER_LEVEL = Rubric.of_package(
    _PACKAGE,
    "user_level",
    lambda case: {"messages": _quote_user(case["messages"])},
    version="2",
    answer=UserLevel,
    values=lambda answer: {"": answer.level.value},
    words=tuple(level.value for level in ExpertiseLevel),
    scope="dialogue",
)
RUBRICS = {rubric.name: rubric for rubric in (EXPERIENCE, ENTITIES, USER_LEVEL)}


def judge_runs(request: JudgeRequest) -> Sequence[JudgeRun]:
    """Return the requests to judges for one episode and rubric.

    `experience` covers the dialogue as far as it was played, `entities` each reply and the
    reference (turn 0), `user_level` the simulated user's messages.
    """
    rubric, episode = request.rubric, request.episode
    if rubric == ENTITIES.name:
        return tuple(_entity_runs(request))
    if rubric == USER_LEVEL.name:
        messages = simulated_messages(episode)
        is_judged = messages and level_is_judged(request.dialog, request.options)
        return (USER_LEVEL.run(0, messages=_quote_user(messages)),) if is_judged else ()
    labels = dict(request.dialog.labels)
    run = EXPERIENCE.run(
        0,
        level=labels[LEVEL],
        archetype=labels[ARCHETYPE].replace("_", " "),
        dialogue=quote_dialogue(episode.messages),
    )
    return (run,)


def _entity_runs(request: JudgeRequest) -> Iterator[JudgeRun]:
    if noted_entities(request.dialog, request.options) is not None:
        return
    reference = reference_text(request.problem, request.options)
    yield ENTITIES.run(REFERENCE, said=quote_text(reference))
    for step in request.episode.messages:
        if step.role is Role.ASSISTANT and step.content.strip():
            yield ENTITIES.run(step.turn, said=quote_text(step.content))


def simulated_messages(episode: Episode) -> tuple[str, ...]:
    """Return the user's messages after the first one, which comes from the golden dialogue."""
    return tuple(
        step.content for step in episode.messages if step.role is Role.USER and step.turn > 1
    )


def level_is_judged(dialog: Dialog, options: Options) -> bool:
    """Return True if a dialogue is in the sample for the user's level.

    The sample is a fourth of the dialogues, selected by a digest of their id, or all of them.
    """
    return options[LEVEL_SAMPLE] == "all" or int(content_id(dialog.dialog_id)[:8], 16) % 4 == 0
