"""Detection and report of a full disk: the file, its folder, the free space and the remedy."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import DiskFull

START_BYTES = 16 * 2**20
"""Minimum free space of an invocation: Prefect's database, logs, and some shards."""
_FULL_BYTES = 256 * 2**10
"""Free space below which an unexplained fault is attributed to the disk."""
_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_MESSAGES = ("no space left on device", "database or disk is full", "disk quota exceeded")


def free_bytes(path: Path) -> int:
    """Return the free space for this user on the disk of `path`, which need not exist yet."""
    while not path.exists() and path != path.parent:
        path = path.parent
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def disk_full(what: str, path: Path, needed: int | None = None) -> DiskFull:
    """Return the error for a file that could not be written.

    Args:
        what: description of the file's content.
        path: file or folder.
        needed: size in bytes; None if unknown.
    """
    need = f", about {_size(needed)} needed" if needed is not None else ""
    return DiskFull(
        f"the disk is full: {what} could not be written to {path} ({_size(free_bytes(path))} free"
        f"{need}). No finished work is lost. Free space at {path}, then type the same command "
        "again to resume"
    )


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:.1f} MB" if n_bytes >= 2**20 else f"{-(-n_bytes // 2**10)} kB"


def is_full(error: BaseException) -> bool:
    """Return True if an error or one of its causes reports a full disk.

    DuckDB and SQLite report it only in the message.
    """
    return any(
        isinstance(cause, DiskFull)
        or (isinstance(cause, OSError) and cause.errno in _ERRNOS)
        or any(message in str(cause).lower() for message in _MESSAGES)
        for cause in _causes(error)
    )


def named_before(error: BaseException) -> DiskFull | None:
    """Return the DiskFull error among an error and its causes; None if there is none."""
    return next((cause for cause in _causes(error) if isinstance(cause, DiskFull)), None)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


@contextmanager
def naming_full_disk(what: str, path: Path, needed: int | None = None) -> Iterator[None]:
    """Raise DiskFull if an error in the block reports a full disk. Other errors pass unchanged.

    Args:
        what: description of the content that the block writes.
        path: file or folder.
        needed: size in bytes; None if unknown.
    """
    try:
        yield
    except DiskFull:
        raise
    except Exception as error:  # any kind: libraries report a full disk by their own errors
        named = named_before(error)
        if named is not None:
            raise DiskFull(str(named)) from error
        if is_full(error):
            raise disk_full(what, path, needed) from error
        raise


def require_room(home: Path, needed: int = START_BYTES) -> None:
    """Check the free space before an invocation starts.

    Raises:
        DiskFull: less than `needed` bytes are free.
    """
    if free_bytes(home) < needed:
        raise disk_full("a run's data", home, needed)


def has_no_room(home: Path) -> bool:
    """Return True if so little space is left that writing to the disk fails."""
    return free_bytes(home) < _FULL_BYTES
