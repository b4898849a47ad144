"""Copies of the warehouse file, and blocks of the old file at the end of its copy.

A publication updates a copy of the file. Copying is the only step whose cost grows with all earlier
publications, so the copy is made ahead, while a night's models answer. The copy's name contains the
identity of its original. It is used only while the original is still the warehouse, and every
publication removes it. Without a warehouse, a file without rows is made ahead instead
(`warehouse.publication.publish.prepare_tables`).

The appended blocks serve readers during the replacement of the file. DuckDB opens a file by name
twice: it reads the header through the first opening and the blocks through the second. A
publication may replace the file in between. The new file is a copy of the old one with one more
checkpoint of DuckDB. A checkpoint overwrites no block that the header before it reaches; it only
cuts free blocks off the file's end. With these blocks appended again, the old header and the new
file are the complete old publication. A line at the very end states the file's length without the
appended blocks. The line counts only while the header is unchanged: another program that writes to
the file changes the header, and may use the space of the blocks.
"""

import errno
import hashlib
import mmap
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from warehouse.connect import FILE_NAME, identity, warehouse_path

_CLONE = 0x40049409
"""Linux's FICLONE: the copy shares the blocks of the original until either changes."""
_STEP_BYTES = 2 * 2**20
_LANES = 2
"""Number of threads, each of which copies a part of the file: one reads while the other writes.
More threads are not faster.
"""
_PAST_THE_CACHE = getattr(os, "O_DIRECT", 0)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file's content.

    The copy shares the original's blocks if the file system supports that. Otherwise it bypasses
    the page cache, or is an ordinary copy. The page cache makes a copy several times slower: each
    page is allocated, zeroed and filled, to be written once.

    Raises:
        OSError: no space or no permission to write.
    """
    if _cloned(source, target):
        return
    try:
        _copy_past_the_cache(source, target)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
        shutil.copyfile(source, target)


def _cloned(source: Path, target: Path) -> bool:
    try:
        import fcntl
    except ImportError:
        return False
    with source.open("rb") as original, target.open("wb") as copy, suppress(OSError):
        fcntl.ioctl(copy.fileno(), _CLONE, original.fileno())
        return True
    return False


def _copy_past_the_cache(source: Path, target: Path) -> None:
    if not _PAST_THE_CACHE:
        raise OSError(errno.ENOTSUP, "this system writes through the page cache only")
    with source.open("rb") as original, ThreadPoolExecutor(_LANES) as threads:
        size = os.fstat(original.fileno()).st_size
        copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _PAST_THE_CACHE, 0o644)
        try:
            if size:
                os.posix_fallocate(copy, 0, size)
            lane = max(1, -(-size // (_LANES * _STEP_BYTES))) * _STEP_BYTES
            spans = [
                range(begin, min(size, begin + lane), _STEP_BYTES) for begin in range(0, size, lane)
            ]
            for _ in threads.map(lambda span: _copy_span(original.fileno(), copy, span), spans):
                pass
            os.ftruncate(copy, size)
        finally:
            os.close(copy)


def _copy_span(original: int, copy: int, steps: range) -> None:
    """Copy one part of a file in whole pages.

    If the last page ends behind the file, the caller truncates the copy.
    """
    with mmap.mmap(-1, _STEP_BYTES) as buffer, memoryview(buffer) as memory:
        for at in steps:
            n_wanted = min(_STEP_BYTES, steps.stop - at)
            if os.preadv(original, [memory[:n_wanted]], at) < n_wanted:
                raise OSError(errno.EIO, "the warehouse was truncated while it was copied")
            whole = -(-n_wanted // mmap.PAGESIZE) * mmap.PAGESIZE
            if os.pwrite(copy, memory[:whole], at) < whole:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


SMALLEST_BYTES = 64 * 2**20
"""Smaller files are not copied ahead: their copy takes an instant."""


def prepare_copy(home: Path) -> Path | None:
    """Copy the warehouse for the next publication.

    Returns:
        The copy, or None if the warehouse is small, or the disk has no space for two more.
    """
    source, target = warehouse_path(home), prepared_path(home)
    with suppress(OSError):
        size = source.stat().st_size
        if size < SMALLEST_BYTES or shutil.disk_usage(home).free < 2 * size or target.exists():
            return None
        with unfinished(target) as copy:
            copy_file(source, copy)
        return target
    return None


@contextmanager
def unfinished(target: Path) -> Iterator[Path]:
    """Yield the path of a file to prepare, which is renamed to `target` at the end of the block.

    Raises:
        FileNotFoundError: another publication has removed the unfinished file.
    """
    path = target.with_name(f"{FILE_NAME}.next-unfinished-{os.getpid()}")
    try:
        yield path
        path.rename(target)
    finally:
        path.unlink(missing_ok=True)


def prepared_path(home: Path) -> Path:
    """Return the path of the file that the next publication updates, if it was made ahead.

    The name contains the identity of the current warehouse, or `empty` if there is none.
    """
    source = warehouse_path(home)
    original = identity(source)
    parts = ("empty",) if original is None else tuple(f"{part:x}" for part in original)
    return source.with_name("-".join((f"{FILE_NAME}.next", *parts)))


def drop_prepared(home: Path) -> None:
    """Remove files made ahead for a first publication that did not happen.

    A file that cannot be removed is left to the next publication: this is called while a command
    ends, perhaps with an error that matters more.
    """
    if not warehouse_path(home).exists():
        for path in home.glob(f"{FILE_NAME}.next-*"):
            with suppress(OSError):
                path.unlink()


_HEADER_BYTES = 3 * 4096
_MARK = b"\nparley: under header %s, from byte %020d on: blocks of the publication before\n"
_MARKED = re.compile(_MARK.replace(b"%s", rb"(\w{64})").replace(b"%020d", rb"(\d{20})"))
_MARK_BYTES = len(_MARK % (b"0" * 64, 0))


def append_cut_off_blocks(old: Path, new: Path) -> None:
    """Append the blocks that `new`, a copy of `old` with one more checkpoint, lost at its end.

    Raises:
        OSError: no space or no permission to write.
    """
    own, needed = new.stat().st_size, _own_bytes(old)
    if own >= needed:
        return
    with old.open("rb") as source, new.open("ab") as target:
        source.seek(own)
        shutil.copyfileobj(source, target)
        target.truncate(needed)
        target.write(_MARK % (_header(new), own))


def drop_appended_blocks(path: Path) -> None:
    """Cut the appended blocks off a file."""
    os.truncate(path, _own_bytes(path))


def _own_bytes(path: Path) -> int:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MARK_BYTES))
        marked = _MARKED.fullmatch(file.read())
    return int(marked[2]) if marked and marked[1] == _header(path) else size


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.sha256(file.read(_HEADER_BYTES)).hexdigest().encode()
