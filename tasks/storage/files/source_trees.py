"""Trees of files that programs run in, read from a user's folder. Parley never changes them."""

import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from schemas.content_id import content_id
from schemas.errors import SandboxUnavailable

_LEFT_OUT = {".git", "__pycache__", ".pytest_cache"}
_OF_A_PACKAGE = (".dist-info", ".egg-info")
_MOST_KEPT = 4
"""Number of trees that a process keeps in memory."""
Where = TypeVar("Where")


@dataclass(frozen=True)
class TreeDigests:
    """Digests of a tree: of its own files, and of the packages installed in it."""

    source: str
    """Digest of the names and contents of the files, without the folder of packages: 32 hex
    digits."""
    packages: str = ""
    """Digest of the names and versions of the packages in that folder; empty without packages."""


def tree_digests(folder: Path, packages: str = "") -> TreeDigests:
    """Return the digests of a folder's files.

    Args:
        folder: folder of the tree.
        packages: folder below it with installed packages, if it has one. Packages are identified by
            name and version, because their files differ between machines (for example in the path
            of Python). A folder without versions is part of the source.
    """
    return _digests(folder, packages, _files(folder), lambda path: path.read_bytes())


@functools.lru_cache(maxsize=_MOST_KEPT)
def tree_files(folder: Path, expected: TreeDigests, packages: str = "") -> Mapping[str, bytes]:
    """Return the content of a folder's files by name. A process reads each tree once.

    Args:
        folder: folder of the tree.
        expected: digests that the files must have.
        packages: folder below it with installed packages, if it has one.

    Raises:
        SandboxUnavailable: the files do not have the expected digests.
    """
    contents = {name: path.read_bytes() for name, path in _files(folder)}
    if _digests(folder, packages, contents.items(), lambda content: content) != expected:
        raise SandboxUnavailable(
            f"the folder {folder} changed since the run was planned. Restore it, or start the "
            "command again, which plans with the new content"
        )
    return contents


def _digests(
    folder: Path, packages: str, files: Iterable[tuple[str, Where]], read: Callable[[Where], bytes]
) -> TreeDigests:
    installed = _installed(folder / packages) if packages else ()
    digest = hashlib.sha256()
    for name, where in files:
        if not (installed and name.startswith(f"{packages}/")):
            content = hashlib.sha256(read(where)).digest()
            digest.update(len(name).to_bytes(4, "big") + os.fsencode(name) + content)
    return TreeDigests(digest.hexdigest()[:32], content_id(installed) if installed else "")


def _installed(folder: Path) -> tuple[str, ...]:
    """Return the names and versions of installed packages, from the names of their folders."""
    return (
        tuple(sorted(path.name for path in folder.iterdir() if path.suffix in _OF_A_PACKAGE))
        if folder.is_dir()
        else ()
    )


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield regular files sorted by name. Links that lead out of the folder are skipped."""
    root = folder.resolve()
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        for name in sorted(names):
            path = Path(place) / name
            if path.suffix != ".pyc" and path.is_file() and path.resolve().is_relative_to(root):
                yield path.relative_to(root).as_posix(), path
