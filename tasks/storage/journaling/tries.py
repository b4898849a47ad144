"""Lets only the worker that holds a shard write its results, and only as long as the driver's try goes on.

A worker that was stopped, cut off or slow may come back late: its shard was given to another worker, or its driver was killed and
the next command has gone on. Its memory is out of date then: a program that was stopped with it "timed out", an answer that it
waits for was asked for again. So it looks before it writes. A try is a folder that its driver makes and removes. A shard's mark
is a file in this folder, made by the shard's holder. Once that very file is gone, the holder keeps nothing.

In a store a mark is a folder with an object of each worker that wants the shard: it writes its own, then looks for others.
Of two at the same moment at least one sees the other, since a listing shows all that was written before: none or one holds it.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from schemas.errors import ParleyError
from tasks.storage.disk import naming_full_disk
from warehouse.object_path import ObjectPath

_OPEN = "open"
"""Name of the object that says that a try goes on."""


class ShardTaken(ParleyError):
    """A shard belongs to somebody else, or to a try that is over."""


class HeldShard(Protocol):
    """A shard that this process holds, as long as the mark it made is there."""

    def check(self) -> None:
        """Raises ShardTaken where this process has lost the shard, and must write nothing for it."""
        ...

    def glance(self) -> None:
        """As `check`, for an event loop: where a look takes a request, it goes by the last one."""
        ...


@dataclass(frozen=True)
class ShardHold:
    """See `HeldShard`."""

    mark: Path
    identity: tuple[int, int]

    def check(self) -> None:
        """Raises ShardTaken where this process has lost the shard, and must write nothing for it."""
        try:
            found = _identity(os.stat(self.mark))
        except FileNotFoundError:
            found = None
        if found != self.identity:
            raise _lost(self.mark.name)

    glance = check


@dataclass(eq=False)
class StoreHold:
    """See `tasks.storage.journaling.tries.HeldShard`. A caller asks `check` before it ships rows of the shard."""

    mark: ObjectPath
    is_lost: bool = False

    def check(self) -> None:
        self.is_lost = self.is_lost or not self.mark.exists()
        self.glance()

    def glance(self) -> None:
        if self.is_lost:
            raise _lost(self.mark.parent.name)


def _lost(shard: str) -> ShardTaken:
    return ShardTaken(f"shard {shard} was given to another worker process, or its try is over")


@contextmanager
def shard_try(folder: Path, name: str) -> Iterator[None]:
    """Let workers take shards under this name while the block runs. Ends every earlier try in the folder.

    Args:
        folder: the run's. The caller holds the run.

    Raises:
        DiskFull: no room for it.
    """
    if isinstance(folder, ObjectPath):
        _remove_marks(folder)
        (folder / name / _OPEN).write_bytes(b"")
        try:
            yield
        finally:
            _remove_marks(folder)
        return
    shutil.rmtree(folder, ignore_errors=True)
    with naming_full_disk("the marks of the shards under way", folder):
        (folder / name).mkdir(parents=True)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_marks(folder: ObjectPath) -> None:
    """The sign of an open try goes first: a mark made after it is seen to be too late, and one made before is listed then."""
    for opened in folder.rglob(_OPEN):
        opened.unlink(missing_ok=True)
    folder.remove_below()


def take_shard(folder: Path, name: str, *, over: bool = False) -> HeldShard:
    """Hold a shard of a try.

    Args:
        folder: the try's.
        over: take the shard even from a worker that began it. Right only where beginning anew asks no model again: Dask gives a
            dead worker's shards to another worker as first sent, without the messages that were journaled since.

    Raises:
        ShardTaken: it was begun before, or the try is over.
        DiskFull: no room for its mark.
    """
    if isinstance(folder, ObjectPath):
        return _take_in_store(folder, name, over=over)
    mark = folder / name
    made = folder / f"{name}.{secrets.token_hex(4)}" if over else mark
    try:
        with naming_full_disk("the mark of a begun shard", folder):
            descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                hold = ShardHold(mark, _identity(os.fstat(descriptor)))
            finally:
                os.close(descriptor)
            if over:
                os.replace(made, mark)
    except FileExistsError:
        raise ShardTaken(f"shard {name} was begun by another worker process") from None
    except FileNotFoundError:
        raise ShardTaken(f"shard {name} belongs to a try that is over") from None
    return hold


def _take_in_store(folder: ObjectPath, name: str, *, over: bool) -> StoreHold:
    hold = StoreHold(folder / name / secrets.token_hex(8))
    hold.mark.write_bytes(b"")
    others = [mark for mark in (folder / name).iterdir() if mark != hold.mark]
    is_over = not (folder / _OPEN).exists()
    if is_over or (others and not over):
        hold.mark.unlink(missing_ok=True)
        why = "belongs to a try that is over" if is_over else "was begun by another worker process"
        raise ShardTaken(f"shard {name} {why}")
    for mark in others:
        mark.unlink(missing_ok=True)
    return hold


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_ino, found.st_mtime_ns
