"""Answers that the memory of a talk is built of, kept once for all dialogues that come after the talk.

A process appends each answer to a segment of its own. Before a process asks for one that nobody has, it holds the talk's lock and
reads what the others wrote: so each answer is paid once, whichever dialogue or run comes first. The system frees the lock of a
process that dies. In an object store there are no locks: two processes may each build a talk there.
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
"""Talks whose answers a process holds in memory."""
ANSWERS = Form[str]("an answer for a talk's memory", lambda row: row["answer"])
BUILT = "built"
"""Field of a row that says up to which turn of which talk the memory is built."""


class TalkAnswers:
    """The answers of one agent with one model. For one event loop.

    Args:
        folder: where they lie, for this agent and model alone.
    """

    def __init__(self, folder: Path, *, fsync: bool = False) -> None:
        self._folder, self._fsync = folder, fsync
        self._marks = open_segment(folder, "the mark of a talk's memory", fsync=fsync)
        self._talks: dict[str, Calls[str]] = {}
        self._built: dict[str, int] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def get(self, talk: str, key: str) -> str | None:
        """Return the answer under a key; None where this process knows none."""
        return self._answers(talk).get(key)

    def put(self, talk: str, key: str, answer: str) -> None:
        """Keep an answer, at once.

        Raises:
            OSError: it could not be written.
        """
        if self.get(talk, key) is None:
            self._answers(talk).put({key: answer})

    def mark_built(self, talk: str, n_turns: int) -> None:
        """Note that all answers for so many turns of a talk are there."""
        self._answers(talk).close()
        if self._built.get(talk, 0) < n_turns:
            self._marks.write({BUILT: talk, "n_turns": n_turns})
            self._built[talk] = n_turns

    @asynccontextmanager
    async def building(self, talk: str) -> AsyncIterator[None]:
        """Hold a talk, so that nobody else asks for its answers. Answers of other processes are read when it is held."""
        async with self._locks.setdefault(talk, asyncio.Lock()):
            descriptor = await self._locked(talk)
            try:
                self._answers(talk).refresh()
                yield
            finally:
                if descriptor is not None:
                    os.close(descriptor)

    async def _locked(self, talk: str) -> int | None:
        if isinstance(self._folder, ObjectPath):
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(
            self._folder / f"{content_id(talk)}.lock", os.O_RDWR | os.O_CREAT, 0o644
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

    def _answers(self, talk: str) -> Calls[str]:
        if talk not in self._talks:
            while len(self._talks) >= _MOST_TALKS:
                self._talks.pop(next(iter(self._talks))).close()
            self._talks[talk] = Calls(self._folder / content_id(talk), ANSWERS, fsync=self._fsync)
            self._talks[talk].refresh()
        return self._talks[talk]

    def close(self) -> None:
        """Close all segments."""
        self._marks.close()
        for answers in self._talks.values():
            answers.close()


def built_talks(folder: Path) -> Mapping[str, int]:
    """Return talk -> number of its turns of which the memory is built."""
    found: dict[str, int] = {}
    for row in read_segments(folder):
        if BUILT in row:
            found[row[BUILT]] = max(row["n_turns"], found.get(row[BUILT], 0))
    return found
