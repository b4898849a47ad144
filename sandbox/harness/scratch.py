"""Files that a run may write: saved after the code, and restored before each group of tests.

The module is trusted, and runs in the supervisor, which no program of the run can access. It
defines no class, for the reason in `run_function_tests.py`.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from typing import Any

PLACES = (".", "/tmp", "/dev/shm")
_MOST_FILES, _MOST_BYTES = 200, 4 << 20


def saved_entries() -> dict[str, Any] | None:
    """Return each file and folder of this user by path, files with their content.

    Return None if they are too many or too large, or if there are links or other special entries.
    """
    entries: dict[str, Any] = {}
    n_bytes = 0
    for path, state in _entries():
        if stat.S_ISREG(state.st_mode) and state.st_nlink == 1:
            n_bytes += state.st_size
        elif not stat.S_ISDIR(state.st_mode) or state.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            return None
        if n_bytes > _MOST_BYTES or len(entries) == _MOST_FILES:
            return None
        entries[path] = (_looks(state), None if stat.S_ISDIR(state.st_mode) else _read(path))
    return entries


def restore(before: dict[str, Any]) -> None:
    """Restore the saved files and folders.

    Raises:
        OSError: something cannot be restored.
    """
    entries = _entries()
    if {path: _looks(state) for path, state in entries} == {
        path: looks for path, (looks, _) in before.items()
    }:
        return
    # Reversed, because the content of a folder must be removed before the folder.
    for path, state in reversed(entries):
        looks, _ = before.get(path, (None, None))
        if looks is None or stat.S_IFMT(looks[0]) != stat.S_IFMT(state.st_mode):
            (os.rmdir if stat.S_ISDIR(state.st_mode) else os.unlink)(path)
    now = {path: _looks(state) for path, state in _entries()}
    for path, (looks, content) in before.items():
        if now.get(path) != looks:
            _write(path, looks, content)
            before[path] = (_looks(os.lstat(path)), content)


def _entries() -> list[tuple[str, os.stat_result]]:
    """Return all entries that this user made in the writable folders, a folder before its content.

    Inaccessible folders are made accessible first.
    """
    entries: list[tuple[str, os.stat_result]] = []
    for place in PLACES:
        device, unseen = os.stat(place).st_dev, [place]
        for folder in unseen:
            for name in os.listdir(folder):
                path = f"{folder}/{name}"
                state = os.lstat(path)
                # Such an entry belongs to the sandbox, and is read-only.
                if state.st_dev != device or state.st_uid != os.getuid():
                    continue
                entries.append((path, state))
                if stat.S_ISDIR(state.st_mode):
                    if state.st_mode & stat.S_IRWXU != stat.S_IRWXU:
                        os.chmod(path, stat.S_IRWXU)
                    unseen.append(path)
    return entries


def _looks(state: os.stat_result) -> tuple[int, ...]:
    if stat.S_ISDIR(state.st_mode):
        return (state.st_mode,)
    return state.st_mode, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


def _read(path: str) -> bytes:
    descriptor, pieces = os.open(path, os.O_RDONLY | os.O_NOFOLLOW), b""
    try:
        while piece := os.read(descriptor, 1 << 20):
            pieces += piece
    finally:
        os.close(descriptor)
    return pieces


def _write(path: str, looks: tuple[int, ...], content: bytes | None) -> None:
    mode = stat.S_IMODE(looks[0])
    if content is None:
        if not os.path.isdir(path):
            os.mkdir(path)
        os.chmod(path, mode)
        return
    if os.path.lexists(path):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        while content:
            content = content[os.write(descriptor, content) :]
        os.fchmod(descriptor, mode)
        os.utime(descriptor, ns=(looks[2], looks[2]))
    finally:
        os.close(descriptor)
