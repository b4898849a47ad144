"""A workspace's files, read and written from outside between two commands. Programs put them there: no link leads out."""

import os
import shutil
import stat
from collections import deque
from pathlib import Path

_MOST_LINKS = 40
_MIB = 2**20


def inner_path(tree: Path, place: str, name: str) -> Path:
    """Path on this host of a file of the tree, all links on the way followed as inside: none leads out.

    Args:
        tree: the tree's folder on this host.
        place: where its programs see it; absolute names begin with it.
        name: relative to the tree, or absolute below `place`.

    Raises:
        ValueError: the name is no path, or leads out of the tree.
    """
    if not name or "\0" in name:
        raise ValueError(f"file name {name!r}: must be a path in {place}")
    found: list[str] = []
    left = deque(_below(place, name))
    links = 0
    while left:
        part = left.popleft()
        if part == "..":
            if not found:
                raise ValueError(f"file name {name!r}: leads out of {place}")
            found.pop()
            continue
        here = tree.joinpath(*found, part)
        if not here.is_symlink():
            found.append(part)
            continue
        target, links = os.readlink(here), links + 1
        if links > _MOST_LINKS:
            raise ValueError(f"file name {name!r}: more than {_MOST_LINKS} links on its way")
        if target.startswith("/"):
            found.clear()
        left.extendleft(reversed(_below(place, target)))
    if not found:
        raise ValueError(f"file name {name!r}: is {place} itself, not a file in it")
    return tree.joinpath(*found)


def _below(place: str, path: str) -> list[str]:
    """A path's parts, relative to the tree where it is absolute."""
    if path.startswith("/") and path != place and not path.startswith(f"{place}/"):
        raise ValueError(f"{path!r}: leads out of {place}")
    inner = path.removeprefix(place) if path.startswith("/") else path
    return [part for part in inner.split("/") if part not in ("", ".")]


def read_file(path: Path, most_bytes: int) -> bytes:
    """Content of a regular file.

    Raises:
        OSError: there is none (a folder, a pipe, nothing), or it is longer than `most_bytes`.
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
    """Write a file and the folders that it needs. It replaces a file of that name, and keeps that file's mode.

    Raises:
        OSError: a folder has that name, or a file stands in the way of a folder.
    """
    made = [
        folder
        for folder in (path, *path.parents)
        if folder.is_relative_to(tree) and not folder.exists()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) & 0o777 if path not in made else 0o644
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
        for item in {path, *made}:
            os.chown(item, owner, owner, follow_symlinks=False)


def put_entry(
    tree: Path, name: str, content: bytes | None, mode: int, is_link: bool, owner: int | None
) -> None:
    """Have a path hold a file, a link or nothing; see `Workspace.put`.

    Raises:
        ValueError: the path leads out of the tree.
    """
    parts = Path(name).parts
    if not parts or ".." in parts or name.startswith("/"):
        raise ValueError(f"file name {name!r}: must be a path in the tree")
    here, made = (
        tree,
        [here for here in _folders(tree, parts[:-1]) if content is not None and _cleared(here)],
    )
    for part in parts[:-1]:
        here = here / part
        if here.is_symlink() or not here.is_dir():
            return  # nothing is wanted there, and nothing is there
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
        for item in (path, *made):
            os.chown(item, owner, owner, follow_symlinks=False)


def _folders(tree: Path, parts: tuple[str, ...]) -> list[Path]:
    return [tree.joinpath(*parts[:n]) for n in range(1, len(parts) + 1)]


def _cleared(folder: Path) -> bool:
    """Make it a folder, in the place of a file or link if need be; whether it was none."""
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
    """Bytes that a folder takes on disk. Files that come and go meanwhile are counted or not."""
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
    """Says when a running command has filled its folder beyond a bound. Looks through the folder only after the disk got fuller.

    Args:
        most_mb: bound of the folder.
    """

    def __init__(self, folder: Path, most_mb: int) -> None:
        self._folder, self._most = folder, most_mb * _MIB
        self._free = self._free_bytes()
        self._room = self._most
        self.overrun = False

    def __call__(self) -> bool:
        """Whether the folder holds too much."""
        free = self._free_bytes()
        if not self.overrun and self._free - free > self._room / 2:
            size = size_of(self._folder)
            self.overrun = size > self._most
            self._free, self._room = free, max(self._most - size, self._most // 8)
        return self.overrun

    def _free_bytes(self) -> int:
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize
