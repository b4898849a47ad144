"""Reports a full disk in plain words: the file that could not be written, its place, the free room and the remedy."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import DiskFull

START_BYTES = 16 * 2**20
"""Room that an invocation needs at least: Prefect's database, logs, and some shards."""
_FULL_BYTES = 256 * 2**10
"""With less than this left, a fault that names no cause is taken for the disk's."""
_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_SAID = ("no space left on device", "database or disk is full", "disk quota exceeded")


def free_bytes(path: Path) -> int:
    """Room for this user on the disk that holds `path`, which need not exist yet."""
    while not path.exists() and path != path.parent:
        path = path.parent
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def disk_full(what: str, path: Path, needed: int | None = None) -> DiskFull:
    """The error for something that could not be written.

    Args:
        needed: bytes that it takes, where known.
    """
    want = f", about {_size(needed)} needed" if needed is not None else ""
    return DiskFull(
        f"the disk is full: {what} could not be written to {path} ({_size(free_bytes(path))} free{want}). Nothing that was"
        f" finished is lost. Free space at {path}, then type the same command again: it goes on"
    )


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:.1f} MB" if n_bytes >= 2**20 else f"{-(-n_bytes // 2**10)} kB"


def is_full(error: BaseException) -> bool:
    """Whether an error, or one of its causes, says that a disk is full. DuckDB and SQLite say it in words only."""
    return any(
        isinstance(cause, DiskFull)
        or (isinstance(cause, OSError) and cause.errno in _ERRNOS)
        or any(said in str(cause).lower() for said in _SAID)
        for cause in _causes(error)
    )


def named_before(error: BaseException) -> DiskFull | None:
    """The error that named the full disk first, where another one came of it."""
    return next((cause for cause in _causes(error) if isinstance(cause, DiskFull)), None)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


@contextmanager
def naming_full_disk(what: str, path: Path, needed: int | None = None) -> Iterator[None]:
    """Raise DiskFull where the block meets a full disk; other errors pass.

    Args:
        what: name of the thing that the block writes.
        path: its place.
        needed: bytes that it takes, where known.
    """
    try:
        yield
    except DiskFull:
        raise
    except Exception as error:  # any: a library may tell of a full disk in an error of its own
        named = named_before(error)
        if named is not None:
            raise DiskFull(str(named)) from error
        if is_full(error):
            raise disk_full(what, path, needed) from error
        raise


def require_room(home: Path, needed: int = START_BYTES) -> None:
    """Refuse to start where there is no room to work in.

    Raises:
        DiskFull: less than `needed` bytes are free.
    """
    if free_bytes(home) < needed:
        raise disk_full("what a run keeps", home, needed)


def has_no_room(home: Path) -> bool:
    """Whether so little is left that writers on that disk fail."""
    return free_bytes(home) < _FULL_BYTES
