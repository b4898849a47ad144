"""Rubrics: six dimensions of a dialogue, the entities of a text, and a user's level."""

from collections.abc import Iterator, Sequence

from pydantic import Field

from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.dialog import Dialog, ExpertiseLevel, Role
from schemas.episode import Episode
from tasks.benchmarks.advanced import JudgeRequest
from tasks.benchmarks.setting import Options
from tasks.benchmarks.talk2code.measures.alignment import (
    REFERENCE,
    Entities,
    entity_set,
    noted_entities,
    reference_text,
)
from tasks.benchmarks.talk2code.options import LEVEL_SAMPLE
from tasks.benchmarks.talk2code.quoted_dialogue import quote_dialogue
from tasks.benchmarks.talk2code.stage import ARCHETYPE, LEVEL
from tasks.judging.drift import DriftMessages
from tasks.judging.rubric import JudgeRun, Rubric
from tasks.language.chat_model import Message
from tasks.language.prompt import fill, load_prompt, quote_messages, quote_text


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


def _experience_prompt(level: str, archetype: str, dialogue: str) -> tuple[Message, ...]:
    text = fill(
        EXPERIENCE_PROMPT, level=level, archetype=archetype.replace("_", " "), dialogue=dialogue
    )
    return (Message(Role.USER, text),)


EXPERIENCE_PROMPT = load_prompt(_PACKAGE, "experience")
EXPERIENCE = Rubric(
    name="experience",
    version="2",
    prompt=EXPERIENCE_PROMPT,
    answer=Experience,
    values=lambda answer: answer.model_dump(),
    dimensions=DIMENSIONS,
    scope="dialogue",
    ranges=dict.fromkeys(DIMENSIONS, (1, 5)),
    drift=DriftMessages(
        _PACKAGE,
        "experience",
        EXPERIENCE_PROMPT,
        lambda case: {**case, "dialogue": quote_messages(case["dialogue"])},
    ),
)


def _entities_prompt(text: str) -> tuple[Message, ...]:
    return (Message(Role.USER, fill(ENTITIES_PROMPT, said=quote_text(text))),)


ENTITIES_PROMPT = load_prompt(_PACKAGE, "entities")
ENTITIES = Rubric(
    name="entities",
    version="2",
    prompt=ENTITIES_PROMPT,
    answer=Entities,
    values=lambda answer: {"": float(len(entity_set(answer.entities)))},
    drift=DriftMessages(
        _PACKAGE, "entities", ENTITIES_PROMPT, lambda case: {"said": quote_text(case["said"])}
    ),
)
"""Rubric of a text's entities.

Its prompt contains only the text, so that equal texts of different runs, dialogues and rounds need
one request.
"""


class UserLevel(Frozen):
    """How much a user knows."""

    level: ExpertiseLevel


def _level_prompt(messages: Sequence[str]) -> tuple[Message, ...]:
    return (Message(Role.USER, fill(LEVEL_PROMPT, messages=_quote_user(messages))),)


def _quote_user(messages: Sequence[str]) -> str:
    return quote_messages(("user", text) for text in messages)


LEVEL_PROMPT = load_prompt(_PACKAGE, "user_level")
USER_LEVEL = Rubric(
    name="user_level",
    version="2",
    prompt=LEVEL_PROMPT,
    answer=UserLevel,
    values=lambda answer: {"": answer.level.value},
    words=tuple(level.value for level in ExpertiseLevel),
    scope="dialogue",
    drift=DriftMessages(
        _PACKAGE,
        "user_level",
        LEVEL_PROMPT,
        lambda case: {"messages": _quote_user(case["messages"])},
    ),
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
        return (JudgeRun(0, rubric, _level_prompt(messages)),) if is_judged else ()
    labels = dict(request.dialog.labels)
    return (
        JudgeRun(
            0,
            rubric,
            _experience_prompt(labels[LEVEL], labels[ARCHETYPE], quote_dialogue(episode.messages)),
        ),
    )


def _entity_runs(request: JudgeRequest) -> Iterator[JudgeRun]:
    if noted_entities(request.dialog, request.options) is not None:
        return
    yield JudgeRun(
        REFERENCE, ENTITIES.name, _entities_prompt(reference_text(request.problem, request.options))
    )
    for step in request.episode.messages:
        if step.role is Role.ASSISTANT and step.content.strip():
            yield JudgeRun(step.turn, ENTITIES.name, _entities_prompt(step.content))


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
