"""A container's writable folders: emptied between commands, files put into them. Runs inside, standard library only."""

from __future__ import annotations

import itertools
import os
import shutil

WORKING_DIRECTORY = "/box"
TEMPORARY = ("/tmp", "/dev/shm")
_QUEUES = "/dev/mqueue"
_SYSTEM_V = ("/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg")


def cleared(*, keep_files: bool) -> bool:
    """Remove leftovers of earlier commands. False where something remains: the container must then be replaced.

    Args:
        keep_files: the working directory, queues and shared memory stay.
    """
    try:
        for folder in TEMPORARY if keep_files else (WORKING_DIRECTORY, *TEMPORARY):
            _empty(folder)
        return keep_files or not _left_in_kernel()
    except OSError:
        return False


def write_files(names: list[str], contents: list[bytes]) -> None:
    """Put files into the working directory, in the place of whatever bears their names. Raises OSError."""
    for name, content in zip(names, contents):  # noqa: B905 - the image's Python may be older than 3.10
        path = os.path.join(WORKING_DIRECTORY, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _remove(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _empty(folder: str) -> None:
    """A folder below another is moved up before its parent goes, so that no path grows with a tree's depth."""
    fresh = (f"{folder}/.parley-{n}" for n in itertools.count())
    while True:
        with os.scandir(folder) as entries:
            found = list(entries)
        if not found:
            return
        for entry in found:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, 0o700)
            with os.scandir(entry.path) as inner:
                below = list(inner)
            for item in below:
                if item.is_dir(follow_symlinks=False):
                    os.chmod(item.path, 0o700)
                    os.rename(item.path, next(fresh))
                else:
                    os.unlink(item.path)
            os.rmdir(entry.path)


def _left_in_kernel() -> bool:
    if os.path.isdir(_QUEUES) and os.listdir(_QUEUES):
        return True
    for path in _SYSTEM_V:
        if os.path.exists(path):
            with open(path) as file:
                if len(file.readlines()) > 1:
                    return True
    return False
