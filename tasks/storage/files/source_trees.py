"""Trees of files that programs run in, as they lie in a user's folder. They are read as they are, and never written."""

import functools
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

_LEFT_OUT = {".git", "__pycache__", ".pytest_cache"}
_MOST_KEPT = 4
"""Trees that a process keeps in memory."""


def tree_digest(folder: Path) -> str:
    """Digest over names and contents of a folder's files; 32 hex digits."""
    digest = hashlib.sha256()
    for name, path in _files(folder):
        content = hashlib.sha256(path.read_bytes()).digest()
        digest.update(len(name).to_bytes(4, "big") + os.fsencode(name) + content)
    return digest.hexdigest()[:32]


@functools.lru_cache(maxsize=_MOST_KEPT)
def tree_files(folder: Path, digest: str) -> Mapping[str, bytes]:
    """Content of a folder's files by name, read once for each digest."""
    return {name: path.read_bytes() for name, path in _files(folder)}


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Regular files in the order of their names. Links are not followed out of the folder."""
    root = folder.resolve()
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        for name in sorted(names):
            path = Path(place) / name
            if path.suffix != ".pyc" and path.is_file() and path.resolve().is_relative_to(root):
                yield path.relative_to(root).as_posix(), path
