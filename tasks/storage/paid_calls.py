"""One store of paid calls: key -> answer, appended at once, found again after a kill.

Each process appends to a segment of its own below the store's folder: a local file, or closed segments of an object store.
So a kill costs the calls in flight. A process reads the segments of all others by `refresh`. Equal calls in flight are sent once.
Dialogues keep steps instead (`tasks.storage.journaling.journal`), in segments of the same form.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from tasks.storage.journaling.segments import SegmentReader, is_being_written
from tasks.storage.journaling.shipping import open_segment

T = TypeVar("T")
Row = Mapping[str, Any]
_DRAIN_S = 20.0
"""Time for calls in flight to be answered after a fault elsewhere: they are paid for."""
_ABANDONED_S = 3600.0
"""A segment of this age that no living process has open is a killed writer's."""


@dataclass(frozen=True)
class Form(Generic[T]):
    """Form of one kind of answers in a segment: a row of the key and, by default, `answer`."""

    what: str
    """What a row holds, for the message of a full disk."""
    load: Callable[[Row], T]
    """Makes an answer of a row. Raises KeyError, TypeError or ValueError where it cannot."""
    dump: Callable[[T], Row] = lambda answer: {"answer": answer}
    """Makes fields of an answer, which `dump_row` can write."""
    load_old: Callable[[Row], Mapping[str, T]] | None = None
    """Reads a row of the release before: key -> answer. Raises as `load`."""
    lasts: Callable[[T], bool] = lambda _: True
    """Whether an answer is worth keeping."""

    def read(self, row: Row) -> Mapping[str, T]:
        """Return key -> answer of a row; empty where it holds no answer of this kind."""
        with suppress(KeyError, TypeError, ValueError):
            if "key" in row:
                return {row["key"]: self.load(row)}
            if self.load_old is not None:
                return self.load_old(row)
        return {}


class CallsInFlight(Generic[T]):
    """Sends equal calls in flight once. For one event loop."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[T]] = {}
        self._is_over = False

    async def find(self, key: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Return what asking brings, and raise what it raises. A caller that stops waiting stops no call."""
        if self._is_over:
            await asyncio.Event().wait()
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._ask(key, ask))
            self._tasks[key].add_done_callback(_retrieve_fault)
        return await asyncio.shield(self._tasks[key])

    async def _ask(self, key: str, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await ask()
        finally:
            del self._tasks[key]

    async def drain(self) -> None:
        """Begin no more calls, and wait a while for those in flight. Later callers wait to be cancelled."""
        self._is_over = True
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=_DRAIN_S)


class Calls(Generic[T]):
    """Paid calls of one kind, as one process sees them. For one event loop.

    Args:
        remembers: whether the process holds in memory what it was answered itself.
    """

    def __init__(
        self, folder: Path, form: Form[T], *, fsync: bool = False, remembers: bool = True
    ) -> None:
        self._form, self._remembers = form, remembers
        self._segment = open_segment(folder, form.what, fsync=fsync)
        self._reader = SegmentReader(folder)
        self._rows: dict[Path, dict[str, T]] = {}
        self.own: dict[str, T] = {}
        """Answers that this process has written, and holds."""
        self.others: dict[str, T] = {}
        """Answers of all other segments that are there, since the last `refresh`."""
        self.in_flight = CallsInFlight[T]()

    async def find(self, key: str, ask: Callable[[], Awaitable[T]], **about: object) -> T:
        """Return the answer under a key, or what asking brings. Raises what asking raises.

        Args:
            about: further fields of the row.

        Raises:
            DiskFull, OSError: the answer could not be written.
            ServerUnavailable: the object store took none of the answers before.
        """

        async def ask_and_keep() -> T:
            answer = await ask()
            if self._form.lasts(answer):
                self.put({key: answer}, **about)
            return answer

        kept = self.get(key)
        return kept if kept is not None else await self.in_flight.find(key, ask_and_keep)

    def get(self, key: str) -> T | None:
        """Return the answer under a key; None where this process holds none."""
        return self.own[key] if key in self.own else self.others.get(key)

    def put(self, answers: Mapping[str, T], **about: object) -> None:
        """Keep answers, in one write. Raises: as `find`."""
        self._segment.write(
            *({"key": key, **about, **self._form.dump(answer)} for key, answer in answers.items())
        )
        if self._remembers:
            self.own |= answers

    def refresh(self) -> None:
        """Read what other processes have written since, and drop what lies in removed segments."""
        there = [
            path
            for path in self._reader.segments()
            if not (self._remembers and self._segment.wrote(path))
        ]
        for path, row in self._reader.new_rows(there):
            answers = self._form.read(row)
            self._rows.setdefault(path, {}).update(answers)
            for key, answer in answers.items():
                self.others.setdefault(key, answer)
        if gone := self._rows.keys() - set(there):
            for path in gone:
                del self._rows[path]
            self.others.clear()
            for rows in self._rows.values():
                self.others |= rows

    def take_abandoned(self) -> Iterator[Mapping[str, T]]:
        """Yield the answers of each segment that a killed process left. Remove it once the caller comes back for the next."""
        self.refresh()
        for path in self._reader.segments():
            with suppress(FileNotFoundError):
                if not self._segment.wrote(path) and _is_abandoned(path):
                    yield self._rows.get(path, {})
                    if _is_abandoned(path):
                        path.unlink()

    def discard(self) -> None:
        """Remove what this process wrote: a table holds it."""
        self._segment.discard()
        self.own.clear()

    def flush(self) -> None:
        """Have what was written so far where other processes see it."""
        self._segment.flush()

    def close(self) -> None:
        """Close the segment; a later write opens another one."""
        self._segment.close()


def read_calls(folder: Path, form: Form[T]) -> Mapping[str, T]:
    """Return key -> answer of all that is kept below a folder."""
    calls = Calls(folder, form)
    calls.refresh()
    return calls.others


def _is_abandoned(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > _ABANDONED_S and not is_being_written(path)


def _retrieve_fault(task: "asyncio.Task[Any]") -> None:
    """Mark a fault as seen: the callers were given it, and a task without callers must not complain."""
    if not task.cancelled():
        task.exception()
