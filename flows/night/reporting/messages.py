"""Messages of a night: lines packed into as many messages as they need, and the record of what was delivered."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.base import Frozen
from schemas.outside.display import plain_line
from tasks.storage.home import Home
from tasks.storage.replaced_file import replace_file

MESSAGE_LENGTH = 4000
"""Characters of a message: chat services cut longer ones, or refuse them."""
LINE_LENGTH = 1500
"""Characters of a line, so that no line fills a message."""
Event = Literal[
    "failure",
    "withheld",
    "budget",
    "regression",
    "judge_moved",
    "trend",
    "change_point",
    "recovery",
    "summary",
]
Key = tuple[str, ...]
"""What tells one thing to be reported from others."""


class Message(Frozen):
    """One message."""

    event: Event
    title: str
    text: str


@dataclass(frozen=True)
class Line:
    """A line of a message, and what it reports."""

    text: str
    keys: tuple[Key, ...] = ()


def packed(
    event: Event, title: str, lines: Sequence[Line]
) -> Iterator[tuple[Message, tuple[Key, ...]]]:
    """Yield messages that hold all lines, each with what its lines report. No line is cut at a message's end."""
    parts: list[list[Line]] = []
    room = 0
    for line in lines:
        cut = Line(plain_line(line.text, LINE_LENGTH), line.keys)
        if len(cut.text) >= room:
            parts.append([])
            room = MESSAGE_LENGTH
        parts[-1].append(cut)
        room -= len(cut.text) + 1
    for number, part in enumerate(parts, start=1):
        of_all = f" ({number} of {len(parts)})" if len(parts) > 1 else ""
        text = "\n".join(line.text for line in part)
        yield (
            Message(event=event, title=f"Parley: {plain_line(title, 200)}{of_all}", text=text),
            tuple(key for line in part for key in line.keys),
        )


class DeliveredKeys:
    """The record of what was reported to one addressee.

    Args:
        name: what is reported: `events` or `failures`.
        addressee: name of the destinations; each addressee has a record of its own.
    """

    def __init__(self, home: Home, name: str, addressee: str) -> None:
        self._file = home.path / "told" / f"{name}-{addressee}.json"

    @property
    def exists(self) -> bool:
        """Whether a night began the record."""
        return self._file.exists()

    def read(self) -> frozenset[Key]:
        """Return what is recorded; nothing where the file cannot be read: a message sent twice is better than none."""
        try:
            return frozenset(tuple(map(str, key)) for key in json.loads(self._file.read_bytes()))
        except (OSError, ValueError, TypeError):
            return frozenset()

    def write(self, keys: Iterable[Key]) -> None:
        """Replace the record.

        Raises:
            UsageError: it cannot be written.
        """
        replace_file(self._file, json.dumps(sorted(set(keys))).encode())


def gist(reason: str) -> str:
    """Return what two reasons of one cause have in common: digits, such as ports, counts and times, may differ."""
    return re.sub(r"\b[0-9a-f]{8,}\b|\d+", "#", plain_line(reason, 300).lower())


def counted(n: int, name: str) -> str:
    """Return a number with the name of what is counted."""
    return f"{n} {name}" if n == 1 else f"{n} {name}s"
