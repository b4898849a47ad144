"""Leases of shards: only the worker that holds a shard's lease writes the shard's results.

A worker that was stopped, cut off or slow may return late, when its shard has another worker, or
its driver was killed and the next command has resumed the run. Its state is then out of date: a
program that was stopped with it "timed out", or an answer that it awaits was requested again. So a
worker checks its lease before it writes.

A driver creates a folder for each attempt, and removes it at the end. A lease is a file (*mark*) in
this folder that the shard's worker creates. The lease is lost if this file is missing, or if
another process has created it again.

In an object store, the mark is a folder with an object for each worker that wants the shard. A
worker writes its own object, then lists the others. A listing shows everything that was written
before, so of two concurrent workers at least one sees the other: at most one gets the lease.
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
from tasks.storage.home import naming_full_disk
from warehouse.object_path import ObjectPath

_OPEN = "open"
"""Name of the object that exists while an attempt is open."""


class LeaseLost(ParleyError):
    """The shard belongs to another worker, or its attempt has ended."""


class ShardLease(Protocol):
    """Lease of a shard, valid as long as the mark of this process exists."""

    def check(self) -> None:
        """Raise LeaseLost if the lease is lost: the process must then not write for the shard."""
        ...

    def glance(self) -> None:
        """Raise LeaseLost if the last `check` did, without a request to an object store."""
        ...


@dataclass(frozen=True)
class FileLease:
    """Lease whose mark is a file."""

    mark: Path
    identity: tuple[int, int]

    def check(self) -> None:
        """Raise LeaseLost if the lease is lost: the process must then not write for the shard."""
        try:
            identity = _identity(os.stat(self.mark))
        except FileNotFoundError:
            identity = None
        if identity != self.identity:
            raise _lost(self.mark.name)

    glance = check


@dataclass(eq=False)
class ObjectLease:
    """Lease whose mark is an object. Callers `check` it before they upload rows of the shard."""

    mark: ObjectPath
    is_lost: bool = False

    def check(self) -> None:
        """Look the mark up. Raise LeaseLost if the lease is lost."""
        self.is_lost = self.is_lost or not self.mark.exists()
        self.glance()

    def glance(self) -> None:
        """Raise LeaseLost if an earlier `check` found the lease lost."""
        if self.is_lost:
            raise _lost(self.mark.parent.name)


def _lost(shard: str) -> LeaseLost:
    return LeaseLost(f"shard {shard} was given to another worker process, or its attempt has ended")


@contextmanager
def shard_attempt(folder: Path, name: str) -> Iterator[None]:
    """Let workers lease shards of an attempt during the block. Earlier attempts end.

    Args:
        folder: folder of the run's leases. The caller locks the run.
        name: name of the attempt.

    Raises:
        DiskFull: the disk is full.
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
    with naming_full_disk("the leases of shards", folder):
        (folder / name).mkdir(parents=True)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_marks(folder: ObjectPath) -> None:
    """Remove the objects of all attempts, those named `open` first.

    Without `open`, a worker that writes its mark during the removal finds that the attempt has
    ended. Earlier marks are in the listing of objects to remove.
    """
    for marker in folder.rglob(_OPEN):
        marker.unlink(missing_ok=True)
    folder.remove_below()


def lease_shard(folder: Path, name: str, *, over: bool = False) -> ShardLease:
    """Lease a shard.

    Args:
        folder: folder of the attempt.
        name: name of the shard.
        over: take the lease even from a worker that began the shard. Use it only if a restart sends
            no request to a model again: Dask gives a dead worker's shards to another worker in
            their original state, without the messages that were journaled since.

    Raises:
        LeaseLost: another worker began the shard, or the attempt has ended.
        DiskFull: there is no room for the mark.
    """
    if isinstance(folder, ObjectPath):
        return _take_in_store(folder, name, over=over)
    mark = folder / name
    new = folder / f"{name}.{secrets.token_hex(4)}" if over else mark
    try:
        with naming_full_disk("the lease of a shard", folder):
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                lease = FileLease(mark, _identity(os.fstat(descriptor)))
            finally:
                os.close(descriptor)
            if over:
                os.replace(new, mark)
    except FileExistsError:
        raise LeaseLost(f"shard {name} was begun by another worker process") from None
    except FileNotFoundError:
        raise LeaseLost(f"shard {name} belongs to an attempt that has ended") from None
    return lease


def _take_in_store(folder: ObjectPath, name: str, *, over: bool) -> ObjectLease:
    lease = ObjectLease(folder / name / secrets.token_hex(8))
    lease.mark.write_bytes(b"")
    others = [mark for mark in (folder / name).iterdir() if mark != lease.mark]
    has_ended = not (folder / _OPEN).exists()
    if has_ended or (others and not over):
        lease.mark.unlink(missing_ok=True)
        why = (
            "belongs to an attempt that has ended"
            if has_ended
            else "was begun by another worker process"
        )
        raise LeaseLost(f"shard {name} {why}")
    for mark in others:
        mark.unlink(missing_ok=True)
    return lease


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_ino, status.st_mtime_ns
