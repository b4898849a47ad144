"""Rubrics of the judges.

Does a message of the agent seek information? How natural and coherent is a dialogue? Does the simulated
user speak as a user?
"""

from collections.abc import Iterable, Sequence

from pydantic import Field

from schemas.base import Frozen
from schemas.dialog import Role
from schemas.episode import Episode, Step
from tasks.benchmarks.advanced import JudgeRequest
from tasks.benchmarks.dialogue_swebench.settings import RUBRICS as NAMES
from tasks.dialogue.agents.repository import ENDED
from tasks.judging.drift import Case, DriftMessages
from tasks.judging.rubric import JudgeRun, Rubric
from tasks.language.chat_model import Message
from tasks.language.prompt import fill, load_prompt
from tasks.language.quotation import quote_talk, quote_text

_PACKAGE = "tasks.benchmarks.dialogue_swebench"
SEEKING, NATURALNESS, COHERENCE, USER_TURN = NAMES
SILENCE = "(The agent ended the talk without a word to the user.)"
"""Message of an agent that wrote nothing to the user, not even as it ended, in the dialogue that a judge reads."""


class Seeks(Frozen):
    """Whether a message asks for information about the problem."""

    asks: bool


class Natural(Frozen):
    """A rating of how easy an agent is to talk with."""

    rating: int = Field(ge=1, le=3)


class Coherent(Frozen):
    """The two criteria."""

    is_local: bool
    is_global: bool


class UserTurn(Frozen):
    """The three criteria of a user's reply."""

    faithful: bool
    on_goal: bool
    in_environment: bool


def _asked(prompt: str, **values: str) -> tuple[Message, ...]:
    return (Message(Role.USER, fill(prompt, **values)),)


def _prompt(name: str) -> str:
    return load_prompt(_PACKAGE, name)


def _shown(case: Case) -> Case:
    quoted = {
        name: quote_text(value) for name, value in case.items() if name in ("message", "reply")
    }
    talks = {"dialogue": quote_talk(case["dialogue"])} if "dialogue" in case else {}
    return {**case, **quoted, **talks}


def _drift(name: str) -> DriftMessages:
    return DriftMessages(_PACKAGE, name, _prompt(name), _shown)


RUBRICS = {
    SEEKING: Rubric(
        name=SEEKING,
        version="2",
        prompt=_prompt(SEEKING),
        answer=Seeks,
        values=lambda answer: {"": float(answer.asks)},
        ranges={"": (0, 1)},
        drift=_drift(SEEKING),
    ),
    NATURALNESS: Rubric(
        name=NATURALNESS,
        version="3",
        prompt=_prompt(NATURALNESS),
        answer=Natural,
        values=lambda answer: {"": float(answer.rating)},
        scope="dialogue",
        ranges={"": (1, 3)},
        drift=_drift(NATURALNESS),
    ),
    COHERENCE: Rubric(
        name=COHERENCE,
        version="3",
        prompt=_prompt(COHERENCE),
        answer=Coherent,
        values=lambda answer: {"local": float(answer.is_local), "global": float(answer.is_global)},
        dimensions=("local", "global"),
        scope="dialogue",
        ranges={"local": (0, 1), "global": (0, 1)},
        people={"": (1, 3)},
        drift=_drift(COHERENCE),
    ),
    USER_TURN: Rubric(
        name=USER_TURN,
        version="2",
        prompt=_prompt(USER_TURN),
        answer=UserTurn,
        values=lambda answer: {name: float(value) for name, value in answer.model_dump().items()},
        dimensions=tuple(UserTurn.model_fields),
        ranges=dict.fromkeys(UserTurn.model_fields, (0, 1)),
        drift=_drift(USER_TURN),
    ),
}


def agent_messages(episode: Episode) -> tuple[Step, ...]:
    """What the agent said to the user, but for its last words: Table 1 counts these messages."""
    said = (
        step for step in episode.messages if step.role is Role.ASSISTANT and step.content.strip()
    )
    return tuple(step for step in said if not any(name == ENDED for name, _ in step.labels))


def has_agent_turn(episode: Episode) -> bool:
    """Return whether the agent's part of the dialogue can be judged: it sent a message, or ended its work, if without a word.

    An agent that failed before (a missing recording, a refusal) has no turn.
    """
    return any(step.role is Role.ASSISTANT for step in episode.messages)


def user_replies(episode: Episode) -> tuple[Step, ...]:
    """The simulated user's own words: all but the first message."""
    return tuple(step for step in episode.messages if step.role is Role.USER and step.turn > 1)


def quote_dialogue(messages: Iterable[Step]) -> str:
    """Return a dialogue as one text, in a form that no message can imitate."""
    return quote_talk(_spoken(messages))


def _spoken(messages: Iterable[Step]) -> list[tuple[str, str]]:
    return [
        ("user" if one.role is Role.USER else "agent", one.content)
        for one in messages
        if one.content.strip()
    ]


def _quote_whole_dialogue(episode: Episode) -> str:
    """Return the dialogue with the agent's closing message. Where the agent never wrote to the user, its silence is stated.

    Section 7.1 rates such dialogues, too: an agent that ends without a word fails to take part in the dialogue.
    """
    spoken = _spoken(episode.messages)
    is_silent = all(writer == "user" for writer, _ in spoken)
    return quote_talk([*spoken, ("agent", SILENCE)] if is_silent else spoken)


def judge_runs(request: JudgeRequest) -> Sequence[JudgeRun]:
    """Each message of the agent, the whole dialogue, or each reply of the simulated user."""
    rubric, episode = request.rubric, request.episode
    text = RUBRICS[rubric].prompt
    if rubric == SEEKING:
        return [
            JudgeRun(step.turn, rubric, _asked(text, message=quote_text(step.content)))
            for step in agent_messages(episode)
        ]
    if rubric == USER_TURN:
        return [
            JudgeRun(
                reply.turn,
                rubric,
                _asked(
                    text,
                    issue=request.problem.prompt,
                    dialogue=quote_dialogue(
                        step for step in episode.messages if step.turn < reply.turn
                    ),
                    reply=quote_text(reply.content),
                ),
            )
            for reply in user_replies(episode)
        ]
    if not has_agent_turn(episode):
        return ()
    return (JudgeRun(0, rubric, _asked(text, dialogue=_quote_whole_dialogue(episode))),)
