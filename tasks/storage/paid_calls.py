"""Store of paid calls: answers by key, written immediately, so that they survive a kill.

Each process appends to a separate segment in the store's folder: a local file, or closed segments
in an object store. So a kill only costs the calls in flight. `refresh` reads the segments of other
processes. Equal calls in flight are sent once. Steps of dialogues, judgements, vectors, and answers
and verdicts of builds are stored in this way, each in a `Form` of its own.

`TalkAnswers` stores answers for agents' memories of conversations, once for all dialogues that
follow a conversation. A process appends each answer to a segment of its own. Before it requests a
missing answer, it locks the conversation and reads the segments of other processes, so each answer
is paid only once. The operating system releases the lock of a process that dies. Object stores have
no locks: there, two processes may each build the memory of a conversation.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from schemas.content_id import content_id
from tasks.storage.journaling.leases import ShardLease
from tasks.storage.journaling.segments import (
    Form,
    Row,
    SegmentReader,
    is_being_written,
    open_segment,
    read_segments,
)
from warehouse.object_path import ObjectPath

T = TypeVar("T")
_NO_FIELDS: Row = MappingProxyType({})
_DRAIN_S = 20.0
"""Seconds to wait for calls in flight after a fault elsewhere, because they are paid for."""
_ABANDONED_S = 3600.0
"""Age in seconds at which a segment that no living process has open counts as abandoned."""


class CallsInFlight(Generic[T]):
    """Calls in flight by key, so that equal calls are sent once. For use in one event loop."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Mapping[str, T]]] = {}
        self._is_over = False

    def __contains__(self, key: str) -> bool:
        return key in self._tasks

    async def find(self, key: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `ask()`, which equal calls in flight share. See `find_all`."""

        async def ask_one(_: Sequence[str]) -> Mapping[str, T]:
            return {key: await ask()}

        return (await self.find_all((key,), ask_one))[key]

    def find_all(
        self, keys: Sequence[str], ask: Callable[[Sequence[str]], Awaitable[Mapping[str, T]]]
    ) -> Awaitable[Mapping[str, T]]:
        """Return the results of calls in flight and of one new call, by key. Raises their errors.

        The new call begins before this function returns. If a caller is cancelled, it continues.

        Args:
            keys: different keys.
            ask: sends one call for the keys that are not in flight, and returns their results.
        """
        if self._is_over:
            return _never()
        if new := [key for key in keys if key not in self._tasks]:
            task = asyncio.create_task(self._ask(new, ask))
            task.add_done_callback(_retrieve_fault)
            self._tasks |= dict.fromkeys(new, task)
        return self._results({key: self._tasks[key] for key in keys})

    async def _results(self, tasks: "Mapping[str, asyncio.Task[Mapping[str, T]]]") -> dict[str, T]:
        if tasks:  # All end, even after a fault of one: they are paid.
            await asyncio.wait(set(tasks.values()))
        return {key: task.result()[key] for key, task in tasks.items()}

    async def _ask(
        self, keys: Sequence[str], ask: Callable[[Sequence[str]], Awaitable[Mapping[str, T]]]
    ) -> Mapping[str, T]:
        try:
            return await ask(keys)
        finally:
            for key in keys:
                del self._tasks[key]

    async def drain(self) -> None:
        """Start no further calls, and wait some seconds for those in flight.

        Later callers wait until they are cancelled.
        """
        self._is_over = True
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()), timeout=_DRAIN_S)


class Calls(Generic[T]):
    """Paid calls of one kind, as seen by one process. For use in one event loop.

    Args:
        folder: folder of the segments.
        form: form of the answers in segments.
        fsync: flush each row to the disk.
        remembers: True if the process keeps its own answers in memory.
    """

    def __init__(
        self, folder: Path, form: Form[T], *, fsync: bool = False, remembers: bool = True
    ) -> None:
        self._form, self._remembers = form, remembers
        self._segment = open_segment(folder, form.what, fsync=fsync)
        self._reader = SegmentReader(folder)
        self._rows: dict[Path, dict[str, T]] = {}
        self.own: dict[str, T] = {}
        """Answers of this process by key; empty unless the process remembers its answers."""
        self.others: dict[str, T] = {}
        """Answers of all other segments by key, as of the last `refresh`."""
        self.in_flight = CallsInFlight[T]()

    async def find(self, key: str, ask: Callable[[], Awaitable[T]], about: Row = _NO_FIELDS) -> T:
        """Return the stored answer under a key, or else the result of `ask()`, which is stored.

        Args:
            key: key of the call.
            ask: sends the call.
            about: further fields of the row.

        Raises:
            DiskFull: the disk is full.
            OSError: the answer could not be written.
            ServerUnavailable: the object store does not accept answers.
            Exception: any error of `ask()`.
        """

        async def ask_and_store() -> T:
            answer = await ask()
            self.put({key: answer}, about)
            return answer

        stored = self.get(key)
        return stored if stored is not None else await self.in_flight.find(key, ask_and_store)

    def get(self, key: str) -> T | None:
        """Return the answer under a key; None if this process has none in memory."""
        return self.own[key] if key in self.own else self.others.get(key)

    def put(
        self, answers: Mapping[str, T], about: Row = _NO_FIELDS, lease: ShardLease | None = None
    ) -> None:
        """Write answers in one write. Raises the errors of `find`, except those of `ask`.

        Args:
            answers: answers by key.
            about: further fields of the rows.
            lease: lease of the shard that the answers belong to. If it is lost, an object store
                does not get the answers.
        """
        rows = ({"key": key, **about, **self._form.dump(it)} for key, it in answers.items())
        self._segment.write(*rows, lease=lease)
        if self._remembers:
            self.own |= answers

    def refresh(self) -> None:
        """Read new rows of other processes, and drop the answers of removed segments."""
        segments = [
            path
            for path in self._reader.segments()
            if not (self._remembers and self._segment.wrote(path))
        ]
        for path, row in self._reader.new_rows(segments):
            answers = self._form.read(row)
            self._rows.setdefault(path, {}).update(answers)
            for key, answer in answers.items():
                self.others.setdefault(key, answer)
        if removed := self._rows.keys() - set(segments):
            for path in removed:
                del self._rows[path]
            self.others.clear()
            for rows in self._rows.values():
                self.others |= rows

    def take_abandoned(self) -> Iterator[Mapping[str, T]]:
        """Yield the answers of each abandoned segment.

        A segment is removed when the caller asks for the next one.
        """
        self.refresh()
        for path in self._reader.segments():
            with suppress(FileNotFoundError):
                if not self._segment.wrote(path) and _is_abandoned(path):
                    yield self._rows.get(path, {})
                    if _is_abandoned(path):
                        path.unlink()

    def discard(self) -> None:
        """Remove the rows of this process. The caller has already written them to a table."""
        self._segment.discard()
        self.own.clear()

    def flush(self) -> None:
        """Make all written rows visible to other processes."""
        self._segment.flush()

    def close(self) -> None:
        """Close the segment. A later write opens another one."""
        self._segment.close()


def read_calls(folder: Path, form: Form[T]) -> Mapping[str, T]:
    """Return all answers in a folder by key."""
    calls = Calls(folder, form)
    calls.refresh()
    return calls.others


def _is_abandoned(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > _ABANDONED_S and not is_being_written(path)


async def _never() -> Any:
    """Wait until the caller is cancelled."""
    await asyncio.Event().wait()


def _retrieve_fault(task: "asyncio.Task[Any]") -> None:
    """Mark a task's error as retrieved, so that asyncio does not log it again."""
    if not task.cancelled():
        task.exception()


_LOOKS_EVERY_S = 0.2
_MOST_TALKS = 256
"""Number of conversations whose answers a process keeps in memory."""
ANSWERS = Form[str]("an answer for a talk's memory", lambda row: row["answer"])
BUILT = "built"
"""Field that marks rows about finished memories. Its value is the conversation."""


class TalkAnswers:
    """Model answers that build an agent's memories of long conversations. For one event loop.

    Args:
        folder: folder of the answers of this agent and model.
        fsync: flush each row to the disk.
    """

    def __init__(self, folder: Path, *, fsync: bool = False) -> None:
        self._folder, self._fsync = folder, fsync
        self._marks = open_segment(folder, "the mark of a talk's memory", fsync=fsync)
        self._conversations: dict[str, Calls[str]] = {}
        self._built: dict[str, int] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def get(self, conversation: str, key: str) -> str | None:
        """Return the answer under a key; None if this process has none in memory."""
        return self._answers(conversation).get(key)

    def put(self, conversation: str, key: str, answer: str) -> None:
        """Store an answer immediately.

        Raises:
            OSError: the answer could not be written.
        """
        if self.get(conversation, key) is None:
            self._answers(conversation).put({key: answer})

    def mark_built(self, conversation: str, n_turns: int) -> None:
        """Record that all answers for the first `n_turns` turns of a conversation are stored."""
        self._answers(conversation).close()
        if self._built.get(conversation, 0) < n_turns:
            self._marks.write({BUILT: conversation, "n_turns": n_turns})
            self._built[conversation] = n_turns

    @asynccontextmanager
    async def building(self, conversation: str) -> AsyncIterator[None]:
        """Lock a conversation, so that no other process requests its answers.

        Once the lock is acquired, the answers of other processes are read.
        """
        async with self._locks.setdefault(conversation, asyncio.Lock()):
            descriptor = await self._locked(conversation)
            try:
                self._answers(conversation).refresh()
                yield
            finally:
                if descriptor is not None:
                    os.close(descriptor)

    async def _locked(self, conversation: str) -> int | None:
        if isinstance(self._folder, ObjectPath):
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(
            self._folder / f"{content_id(conversation)}.lock", os.O_RDWR | os.O_CREAT, 0o644
        )
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    await asyncio.sleep(_LOOKS_EVERY_S)
                else:
                    return descriptor
        except OSError:  # a file system without locks
            return descriptor
        except BaseException:
            os.close(descriptor)
            raise

    def _answers(self, conversation: str) -> Calls[str]:
        if conversation not in self._conversations:
            while len(self._conversations) >= _MOST_TALKS:
                self._conversations.pop(next(iter(self._conversations))).close()
            self._conversations[conversation] = Calls(
                self._folder / content_id(conversation), ANSWERS, fsync=self._fsync
            )
            self._conversations[conversation].refresh()
        return self._conversations[conversation]

    def close(self) -> None:
        """Close all segments."""
        self._marks.close()
        for answers in self._conversations.values():
            answers.close()


def built_talks(folder: Path) -> Mapping[str, int]:
    """Map each conversation to the number of turns in its built memory."""
    n_turns: dict[str, int] = {}
    for row in read_segments(folder):
        if BUILT in row:
            n_turns[row[BUILT]] = max(row["n_turns"], n_turns.get(row[BUILT], 0))
    return n_turns
