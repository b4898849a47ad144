"""Rubrics of the judges.

They rate if an agent's message seeks information, how natural and coherent a dialogue is, and if
the simulated user behaves like a user.
"""

from collections.abc import Iterable, Sequence

from pydantic import Field

from schemas.base import Frozen
from schemas.dialog import Role
from schemas.episode import Episode, Step
from tasks.benchmarks.advanced import JudgeRequest
from tasks.benchmarks.dialogue_swebench.settings import RUBRICS as NAMES
from tasks.dialogue.agents.repository.labels import ENDED
from tasks.judging.rubric import Case, JudgeRun, Rubric
from tasks.language.prompt import quote_messages, quote_text

_PACKAGE = "tasks.benchmarks.dialogue_swebench"
SEEKING, NATURALNESS, COHERENCE, USER_TURN = NAMES
SILENCE = "(The agent ended the talk without a word to the user.)"
"""Text in the judge's prompt that represents an agent without any message to the user."""


# Docstrings of answer models are part of the schema that judges see, and thus of rubric digests.
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


def _case_texts(case: Case) -> Case:
    quoted = {
        name: quote_text(value) for name, value in case.items() if name in ("message", "reply")
    }
    dialogues = {"dialogue": quote_messages(case["dialogue"])} if "dialogue" in case else {}
    return {**case, **quoted, **dialogues}


RUBRICS = {
    SEEKING: Rubric.of_package(
        _PACKAGE,
        SEEKING,
        _case_texts,
        version="2",
        answer=Seeks,
        values=lambda answer: {"": float(answer.asks)},
        ranges={"": (0, 1)},
    ),
    NATURALNESS: Rubric.of_package(
        _PACKAGE,
        NATURALNESS,
        _case_texts,
        version="3",
        answer=Natural,
        values=lambda answer: {"": float(answer.rating)},
        scope="dialogue",
        ranges={"": (1, 3)},
    ),
    COHERENCE: Rubric.of_package(
        _PACKAGE,
        COHERENCE,
        _case_texts,
        version="3",
        answer=Coherent,
        values=lambda answer: {"local": float(answer.is_local), "global": float(answer.is_global)},
        dimensions=("local", "global"),
        scope="dialogue",
        ranges={"local": (0, 1), "global": (0, 1)},
        people={"": (1, 3)},
    ),
    USER_TURN: Rubric.of_package(
        _PACKAGE,
        USER_TURN,
        _case_texts,
        version="2",
        answer=UserTurn,
        values=lambda answer: {name: float(value) for name, value in answer.model_dump().items()},
        dimensions=tuple(UserTurn.model_fields),
        ranges=dict.fromkeys(UserTurn.model_fields, (0, 1)),
    ),
}


def agent_messages(episode: Episode) -> tuple[Step, ...]:
    """Return the agent's messages to the user, as Table 1 counts them: without the closing one."""
    messages = (
        step for step in episode.messages if step.role is Role.ASSISTANT and step.content.strip()
    )
    return tuple(step for step in messages if not any(name == ENDED for name, _ in step.labels))


def has_agent_turn(episode: Episode) -> bool:
    """Return True if the agent sent a message or ended its work, even without a message.

    Otherwise its part of the dialogue cannot be judged. An agent that failed earlier (a missing
    recording, a refusal) has no turn.
    """
    return any(step.role is Role.ASSISTANT for step in episode.messages)


def user_replies(episode: Episode) -> tuple[Step, ...]:
    """Return the simulated user's messages, except the first."""
    return tuple(step for step in episode.messages if step.role is Role.USER and step.turn > 1)


def quote_dialogue(messages: Iterable[Step]) -> str:
    """Return a dialogue as one text, quoted so that no message can imitate another."""
    return quote_messages(_entries(messages))


def _entries(messages: Iterable[Step]) -> list[tuple[str, str]]:
    return [
        ("user" if message.role is Role.USER else "agent", message.content)
        for message in messages
        if message.content.strip()
    ]


def _quote_whole_dialogue(episode: Episode) -> str:
    """Return the dialogue with the agent's closing message, or with a note on the agent's silence.

    Section 7.1 rates such dialogues as well: a silent agent fails to take part in the dialogue.
    """
    messages = _entries(episode.messages)
    is_silent = all(writer == "user" for writer, _ in messages)
    return quote_messages([*messages, ("agent", SILENCE)] if is_silent else messages)


def judge_runs(request: JudgeRequest) -> Sequence[JudgeRun]:
    """Return a judgement for each agent message, each reply of the user, or the dialogue."""
    rubric, episode = RUBRICS[request.rubric], request.episode
    if rubric.name == SEEKING:
        return [
            rubric.run(step.turn, message=quote_text(step.content))
            for step in agent_messages(episode)
        ]
    if rubric.name == USER_TURN:
        return [
            rubric.run(
                reply.turn,
                issue=request.problem.prompt,
                dialogue=quote_dialogue(
                    step for step in episode.messages if step.turn < reply.turn
                ),
                reply=quote_text(reply.content),
            )
            for reply in user_replies(episode)
        ]
    if not has_agent_turn(episode):
        return ()
    return (rubric.run(0, dialogue=_quote_whole_dialogue(episode)),)
