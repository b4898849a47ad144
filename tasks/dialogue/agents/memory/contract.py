"""Contract of memories: rounds of a conversation go in, requests come out.

A memory is a generator that yields requests: for an answer of the model (`Ask`) or for vectors
(`Embed`). Each answer is an artifact of the turn that requested it, so it is journaled before the
next request. After a kill, the generators run again with the journaled answers, so no request is
repeated.
"""

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from schemas.dialog import Role
from tasks.language.chat_model import Message
from tasks.language.prompt import json_line

T = TypeVar("T")


@dataclass(frozen=True)
class Ask:
    """Request for an answer of the model, which becomes a step of the turn."""

    purpose: str
    prompt: str
    is_shared: bool = False
    """True if the request is about a conversation that other dialogues share."""


@dataclass(frozen=True)
class Embed:
    """Request for the vector of each text, of length 1. Blank texts have no vector."""

    texts: tuple[str, ...]


Thinking = Generator[Ask | Embed, Any, T]


@dataclass(frozen=True)
class Unit:
    """One round of the conversation: the user's message, and the answer that the model sees."""

    number: int
    """1-based number of the round."""
    user: str
    assistant: str

    @property
    def text(self) -> str:
        """Return both messages as the text to embed."""
        messages = (("User", self.user), ("Assistant", self.assistant))
        return "\n".join(f"{who}: {words}" for who, words in messages if words)

    @property
    def shown(self) -> str:
        """Return both messages for a model, quoted so that neither can imitate the other."""
        return labelled_line(user=self.user, assistant=self.assistant)

    def beyond(self, earlier: "Unit") -> "Unit":
        """Return the part of the round that is missing in an earlier version of it.

        Some history policies append later messages to a round.
        """
        new = (
            now.removeprefix(before).strip("\n")
            for now, before in ((self.user, earlier.user), (self.assistant, earlier.assistant))
        )
        return Unit(self.number, *new)


@dataclass(frozen=True)
class Recalled:
    """Part of the conversation that the model sees."""

    memories: tuple[str, ...] = ()
    recent: tuple[Unit, ...] = ()
    """Rounds that the model sees verbatim."""


class Memory(Protocol):
    """Memory of one dialogue, which an agent consults instead of the full conversation."""

    def add(self, unit: Unit) -> Thinking[None]:
        """Add a round of the conversation to the memory."""
        ...

    def recall(self, question: str, most: int) -> Thinking[Recalled]:
        """Return up to `most` memories for a question."""
        ...


def units_of(messages: Sequence[Message]) -> tuple[list[Unit], str]:
    """Return the complete rounds of a conversation, and the user's text since the last one.

    A round begins with a user message that follows an assistant message. It is complete if it has
    an answer.
    """
    rounds: list[tuple[list[str], list[str]]] = []
    for message in messages:
        is_user = message.role is Role.USER
        if not rounds or (is_user and rounds[-1][1]):
            rounds.append(([], []))
        rounds[-1][0 if is_user else 1].append(message.content)
    question = rounds.pop()[0] if rounds and not rounds[-1][1] else []
    return [
        Unit(number, "\n".join(user), "\n".join(answers))
        for number, (user, answers) in enumerate(rounds, 1)
    ], "\n".join(question)


def in_order(units: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """Return memories in the order of the conversation, each with its round number."""
    return tuple(f"[{number}] {text}" for number, text in sorted(units))


def labelled_line(**texts: str) -> str:
    """Return non-empty texts by name on one line of JSON."""
    return json_line({name: text for name, text in texts.items() if text})


def read_object(reply: str) -> dict[str, Any]:
    """Return the JSON object in an answer, or an empty one if none is readable."""
    try:
        value = json.loads(reply[reply.find("{") : reply.rfind("}") + 1])
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def list_in(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def text_in(value: Any) -> str:
    """Return the value as valid Unicode if it is a text, else an empty text."""
    return value.encode("utf-8", "replace").decode().strip() if isinstance(value, str) else ""


def texts_in(value: Any) -> tuple[str, ...]:
    """Return the distinct texts of a list. Other values are omitted."""
    return tuple(dict.fromkeys(text for item in list_in(value) if (text := text_in(item))))
