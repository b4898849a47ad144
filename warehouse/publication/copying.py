"""Copies of the warehouse file.

Copying is the only step of a publication whose cost grows with all earlier publications.
"""

import errno
import mmap
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

_CLONE = 0x40049409
"""Linux's FICLONE: the copy shares the blocks of the original until either changes."""
_STEP_BYTES = 2 * 2**20
_LANES = 2
"""Threads that copy a part of the file each: one reads while the other writes. More are not faster.
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
