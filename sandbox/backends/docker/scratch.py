"""Cleaning of a container's writable folders between commands, and delivery of files into them.

The module runs in the container, and uses only the standard library.
"""

from __future__ import annotations

import os
import shutil

WORKING_DIRECTORY = "/box"
TEMPORARY = ("/tmp", "/dev/shm")
_QUEUES = "/dev/mqueue"
_SYSTEM_V = ("/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg")


def cleared(folders: list[str], *, keep_kernel: bool) -> bool:
    """Remove what earlier commands left, and return True.

    Return False if something remains. The container must then be replaced.

    Args:
        folders: folders to empty.
        keep_kernel: if True, the kernel's message queues and shared memory are not removed.
    """
    try:
        for folder in folders:
            empty_folder(folder)
        return keep_kernel or not _left_in_kernel()
    except OSError:
        return False


def write_files(names: list[str], contents: list[bytes]) -> None:
    """Write files into the working directory, and replace whatever has their names.

    Raises:
        OSError: a file cannot be written.
    """
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


def empty_folder(folder: str) -> None:
    """Remove the content of a folder.

    A nested folder is moved up before its parent is removed, so paths stay short at any depth.

    Raises:
        OSError: the folder contains something that belongs to another user.
    """
    while True:
        with os.scandir(folder) as entries:
            children = list(entries)
        if not children:
            return
        for entry in children:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, 0o700)
            with os.scandir(entry.path) as inner:
                below = list(inner)
            for item in below:
                if item.is_dir(follow_symlinks=False):
                    os.chmod(item.path, 0o700)
                    os.rename(item.path, f"{folder}/.parley-{os.urandom(8).hex()}")
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
