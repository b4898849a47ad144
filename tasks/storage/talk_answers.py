"""Answers for agents' memories of conversations, stored once for all dialogues that follow them.

A process appends each answer to a segment of its own. Before it requests a missing answer, it locks
the conversation and reads the segments of other processes, so each answer is paid only once. The
operating system releases the lock of a process that dies. Object stores have no locks: there, two
processes may each build the memory of a conversation.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from schemas.content_id import content_id
from tasks.storage.journaling.segments import read_segments
from tasks.storage.journaling.shipping import open_segment
from tasks.storage.paid_calls import Calls, Form
from warehouse.object_path import ObjectPath

_LOOKS_EVERY_S = 0.2
_MOST_TALKS = 256
"""Number of conversations whose answers a process keeps in memory."""
ANSWERS = Form[str]("an answer for a talk's memory", lambda row: row["answer"])
BUILT = "built"
"""Field of the rows that record the number of turns in the built memory of a conversation."""


class TalkAnswers:
    """Answers of one agent with one model. For use in one event loop.

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
        """Return the answer under a key; None if this process has read none."""
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
