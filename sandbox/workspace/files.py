"""Reading and writing of a workspace's files by the host, between two commands.

Programs may have made the files, so the functions follow no link out of the tree.
"""

import os
import shutil
import stat
from collections import deque
from pathlib import Path

_MOST_LINKS = 40
_MIB = 2**20


def inner_path(tree: Path, place: str, name: str) -> Path:
    """Return the path on this host of a file of the tree.

    All symbolic links in the path are resolved as in the sandbox, so none leads out of the tree.

    Args:
        tree: folder of the tree on this host.
        place: path at which programs see the tree. Absolute names begin with it.
        name: name relative to the tree, or absolute below `place`.

    Raises:
        ValueError: the name is not a path, or leads out of the tree.
    """
    if not name or "\0" in name:
        raise ValueError(f"file name {name!r}: must be a path in {place}")
    resolved: list[str] = []
    left = deque(_below(place, name))
    links = 0
    while left:
        part = left.popleft()
        if part == "..":
            if not resolved:
                raise ValueError(f"file name {name!r}: leads out of {place}")
            resolved.pop()
            continue
        here = tree.joinpath(*resolved, part)
        if not here.is_symlink():
            resolved.append(part)
            continue
        target, links = os.readlink(here), links + 1
        if links > _MOST_LINKS:
            raise ValueError(f"file name {name!r}: more than {_MOST_LINKS} links on its way")
        if target.startswith("/"):
            resolved.clear()
        left.extendleft(reversed(_below(place, target)))
    if not resolved:
        raise ValueError(f"file name {name!r}: is {place} itself, not a file in it")
    return tree.joinpath(*resolved)


def _below(place: str, path: str) -> list[str]:
    """Return the parts of a path, relative to the tree if it is absolute."""
    if path.startswith("/") and path != place and not path.startswith(f"{place}/"):
        raise ValueError(f"{path!r}: leads out of {place}")
    inner = path.removeprefix(place) if path.startswith("/") else path
    return [part for part in inner.split("/") if part not in ("", ".")]


def read_file(path: Path, most_bytes: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: the file does not exist, is not a regular file (but a folder or a pipe), or is
            longer than `most_bytes`.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path.name}: is not a file")
        if status.st_size > most_bytes:
            raise OSError(f"{path.name}: has {status.st_size} bytes, more than {most_bytes}")
        return file.readall()


def write_file(tree: Path, path: Path, data: bytes, owner: int | None) -> None:
    """Write a file and the folders that it needs.

    An existing file is replaced, but its mode is kept.

    Raises:
        OSError: a folder has the file's name, or a file has the name of a needed folder.
    """
    created = [
        folder
        for folder in (path, *path.parents)
        if folder.is_relative_to(tree) and not folder.exists()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) & 0o777 if path not in created else 0o644
    fresh = path.with_name(f".parley-{os.urandom(8).hex()}")
    descriptor = os.open(
        fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(descriptor, mode)
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
    if owner is not None:
        for item in {path, *created}:
            os.chown(item, owner, owner, follow_symlinks=False)


def put_entry(
    tree: Path, name: str, content: bytes | None, mode: int, is_link: bool, owner: int | None
) -> None:
    """Put a file or a link at a path, or remove what is there. See `Workspace.put`.

    Raises:
        ValueError: the path leads out of the tree.
    """
    parts = Path(name).parts
    if not parts or ".." in parts or name.startswith("/"):
        raise ValueError(f"file name {name!r}: must be a path in the tree")
    here, created = (
        tree,
        [here for here in _folders(tree, parts[:-1]) if content is not None and _cleared(here)],
    )
    for part in parts[:-1]:
        here = here / part
        if here.is_symlink() or not here.is_dir():
            return  # The path must not exist, and it does not.
    path = here / parts[-1]
    _remove(path)
    if content is None:
        return
    if is_link:
        path.symlink_to(os.fsdecode(content))
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
    if owner is not None:
        for item in (path, *created):
            os.chown(item, owner, owner, follow_symlinks=False)


def _folders(tree: Path, parts: tuple[str, ...]) -> list[Path]:
    return [tree.joinpath(*parts[:n]) for n in range(1, len(parts) + 1)]


def _cleared(folder: Path) -> bool:
    """Make a folder at a path, and return True if there was none.

    A file or link at the path is removed.
    """
    if folder.is_dir() and not folder.is_symlink():
        return False
    _remove(folder)
    folder.mkdir(mode=0o755)
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def size_of(folder: Path) -> int:
    """Return the bytes that a folder uses on disk.

    A file that appears or vanishes meanwhile may be counted or not.
    """
    total, folders = 0, [str(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            continue
    return total


class SizeWatch:
    """Check of the size of a folder that a running command may fill.

    The folder is measured only if the disk's free space has shrunk.

    Args:
        folder: folder to watch.
        most_mb: maximum size of the folder in MiB.
    """

    def __init__(self, folder: Path, most_mb: int) -> None:
        self._folder, self._most = folder, most_mb * _MIB
        self._free = self._free_bytes()
        self._room = self._most
        self.overrun = False

    def __call__(self) -> bool:
        """Return True if the folder exceeds its maximum size."""
        free = self._free_bytes()
        if not self.overrun and self._free - free > self._room / 2:
            size = size_of(self._folder)
            self.overrun = size > self._most
            self._free, self._room = free, max(self._most - size, self._most // 8)
        return self.overrun

    def _free_bytes(self) -> int:
        status = os.statvfs(self._folder)
        return status.f_bavail * status.f_frsize
