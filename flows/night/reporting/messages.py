"""Messages of a night: lines packed into messages, and the record of delivered ones."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.base import Frozen
from schemas.outside.display import plain_line
from tasks.storage.home import Home
from tasks.storage.new_folder import replace_file

MESSAGE_LENGTH = 4000
"""Maximum characters of a message. Chat services cut or reject longer ones."""
LINE_LENGTH = 1500
"""Maximum characters of a line, so that no single line fills a message."""
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
"""Key that identifies one reported event."""


class Message(Frozen):
    """One notification with its event, title and text."""

    event: Event
    title: str
    text: str


@dataclass(frozen=True)
class Line:
    """Line of a message, with the keys of the events that it reports."""

    text: str
    keys: tuple[Key, ...] = ()


def packed(
    event: Event, title: str, lines: Sequence[Line]
) -> Iterator[tuple[Message, tuple[Key, ...]]]:
    """Yield messages that contain all lines, each with the keys of its lines. No line is split."""
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
    """Record of the keys that were reported to one set of destinations.

    Args:
        home: Parley's data folder.
        name: Kind of the keys: `events` or `failures`.
        addressee: Digest of the set of destinations. Each set has its own record.
    """

    def __init__(self, home: Home, name: str, addressee: str) -> None:
        self._file = home.path / "told" / f"{name}-{addressee}.json"

    @property
    def exists(self) -> bool:
        """Return True if a night has created the record."""
        return self._file.exists()

    def read(self) -> frozenset[Key]:
        """Return the recorded keys.

        If the file is unreadable, return no keys: a repeated message is better than a lost one.
        """
        try:
            return frozenset(tuple(map(str, key)) for key in json.loads(self._file.read_bytes()))
        except (OSError, ValueError, TypeError):
            return frozenset()

    def write(self, keys: Iterable[Key]) -> None:
        """Replace the record.

        Raises:
            UsageError: The file cannot be written.
        """
        replace_file(self._file, json.dumps(sorted(set(keys))).encode())


def gist(reason: str) -> str:
    """Return a reason in a form that is equal whenever the cause is the same.

    Numbers and digests (ports, counts, ids) are replaced by `#`, because they vary from night to
    night.
    """
    return re.sub(r"\b[0-9a-f]{8,}\b|\d+", "#", plain_line(reason, 300).lower())


def counted(n: int, name: str) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{n} {name}" if n == 1 else f"{n} {name}s"
