"""Layout of the zygote's memory, chosen so that its forks copy and map few pages.

Nearly all of a run's processor time is the kernel's work on memory: a fork copies each page that it
writes to, and maps each page of a file again. Every step here is optional. Where the kernel, the C
library or the interpreter does not support it, memory stays as it was. The module uses only the
standard library and defines no class, for the reasons in `zygote.py`.
"""

from __future__ import annotations

import ctypes
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_HUGE, _COLLAPSE = 2 << 20, 25
_LARGEST_TEXT = 16 << 20
"""Maximum bytes of one program or library that are copied."""
_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE_ANONYMOUS, _MOVE_TO_FIXED = 0x22, 3
_SMALLEST_BYTES = 33
"""Size of an empty bytes object."""
_libc = ctypes.CDLL(None, use_errno=True)
_fillers: list[object] = []


def release_free_memory() -> None:
    """Return the heap's free memory to the kernel if possible, so that forks copy less."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)


def fill_free_blocks() -> None:
    """Fill the gaps between Python's small objects.

    Otherwise the first objects of each fork would fill the gaps, and each gap would make the fork
    copy a page.
    """
    for size, n_free in _free_blocks():
        if size >= _SMALLEST_BYTES:
            _fillers.extend(bytes(size - _SMALLEST_BYTES) for _ in range(n_free))
        elif size == sys.getsizeof(object()):
            _fillers.extend(object() for _ in range(n_free))
        else:  # Each large integer is an object of its own. Floats would come from a free list.
            _fillers.extend(1000 + n for n in range(n_free))


def use_huge_pages() -> None:
    """Move this process's own memory, and the interpreter's code, to huge pages.

    A fork then copies fewer page tables.
    """
    for first, end, rights, name in [*_areas()]:
        if rights.startswith("rw") and name in ("", "[heap]"):
            _collapse(first, end)
    for first, end in _texts():
        _copy_text(first, end - first)


def _texts() -> list[tuple[int, int]]:
    """Return the read-only areas of each program and library that fill at least one huge page."""
    texts: list[tuple[int, int, str]] = []
    for first, end, rights, name in _areas():
        if rights not in ("r--p", "r-xp") or not name.startswith("/"):
            continue
        if texts and texts[-1][1:] == (first, name):
            texts[-1] = (texts[-1][0], end, name)
        else:
            texts.append((first, end, name))
    return [
        (first, end)
        for first, end, _ in texts
        if end - first <= _LARGEST_TEXT and [*_huge_pages(first, end)]
    ]


def _copy_text(first: int, size: int) -> None:
    """Replace mapped pages of a program by a copy in huge pages, which forks share.

    A mapped file's pages are mapped anew in each fork, page fault by page fault.
    """
    reserved = _libc.mmap(None, size + _HUGE, _READ | _WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    if reserved == ctypes.c_void_p(-1).value:
        return
    copy = reserved + (first - reserved) % _HUGE
    ctypes.memmove(copy, first, size)
    if _collapse(copy, copy + size) and not _libc.mprotect(copy, size, _READ | _EXECUTE):
        # The kernel replaces the pages in one step, and no other thread runs.
        _libc.mremap(copy, size, size, _MOVE_TO_FIXED, first)
    _libc.munmap(reserved, size + _HUGE)


def _collapse(first: int, end: int) -> bool:
    """Move memory to huge pages where they fit, and return False if the kernel refuses one."""
    results = [_libc.madvise(page, _HUGE, _COLLAPSE) for page in _huge_pages(first, end)]
    return not any(results)


def _huge_pages(first: int, end: int) -> Iterator[int]:
    return iter(range(-(-first // _HUGE) * _HUGE, end - _HUGE + 1, _HUGE))


def _areas() -> Iterator[tuple[int, int, str, str]]:
    """Yield beginning, end, access rights and file of each memory area of this process."""
    with open("/proc/self/maps") as maps:
        areas = [line.split() for line in maps]
    for place, rights, _, _, _, *name in areas:
        first, end = (int(address, 16) for address in place.split("-"))
        yield first, end, rights, " ".join(name)


def _free_blocks() -> list[tuple[int, int]]:
    """Return each block size of Python's allocator, with the number of free blocks between objects.

    The interpreter reports them only as text on stderr.
    """
    stderr, report = os.dup(2), os.memfd_create("parley-blocks")
    os.dup2(report, 2)
    sys._debugmallocstats()
    os.dup2(stderr, 2)
    os.close(stderr)
    with open(report, "rb") as file:
        file.seek(0)
        rows = [line.split() for line in file]
    return [
        (int(row[1]), int(row[4])) for row in rows if len(row) == 5 and all(map(bytes.isdigit, row))
    ]


_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.mremap.restype = ctypes.c_void_p
_libc.mremap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_void_p,
]
