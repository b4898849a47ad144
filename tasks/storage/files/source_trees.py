"""Trees of files that programs run in, as they lie in a user's folder. They are read as they are, and never written."""

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
"""Trees that a process keeps in memory."""
Where = TypeVar("Where")


@dataclass(frozen=True)
class TreeDigests:
    """What names a tree."""

    source: str
    """Over names and contents of its files, without its folder of packages; 32 hex digits."""
    packages: str = ""
    """Over names and versions of the packages in that folder; empty where there are none."""


def tree_digests(folder: Path, packages: str = "") -> TreeDigests:
    """What names the files of a folder.

    Args:
        packages: a folder below it with installed packages, if it has one. These are known by name and version: an installation
            of the same versions elsewhere writes other bytes, such as the place of its Python. A folder that tells no versions
            is part of the source.
    """
    return _digests(folder, packages, _files(folder), lambda path: path.read_bytes())


@functools.lru_cache(maxsize=_MOST_KEPT)
def tree_files(folder: Path, expected: TreeDigests, packages: str = "") -> Mapping[str, bytes]:
    """Content of a folder's files by name, read once for each digest.

    Raises:
        SandboxUnavailable: they are not those that the digests were made of.
    """
    found = {name: path.read_bytes() for name, path in _files(folder)}
    if _digests(folder, packages, found.items(), lambda content: content) != expected:
        raise SandboxUnavailable(
            f"the folder {folder} changed since the run was planned. Bring it back as it was, or begin the command again: it then"
            " asks for what the new content needs"
        )
    return found


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
    """Names and versions of installed packages, as their own folders state them."""
    return (
        tuple(sorted(path.name for path in folder.iterdir() if path.suffix in _OF_A_PACKAGE))
        if folder.is_dir()
        else ()
    )


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Regular files in the order of their names. Links are not followed out of the folder."""
    root = folder.resolve()
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        for name in sorted(names):
            path = Path(place) / name
            if path.suffix != ".pyc" and path.is_file() and path.resolve().is_relative_to(root):
                yield path.relative_to(root).as_posix(), path
