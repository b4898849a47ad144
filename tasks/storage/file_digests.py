"""Stored digests of files, so that a large checkpoint is not read again each night."""

import hashlib
import json
import os
import time
from pathlib import Path

_SETTLED_S = 2.0
"""Minimum age in seconds of a file whose digest is stored.

A younger file may change again within one step of the file system's clock, unnoticed.
"""


class FileDigests:
    """Cache of the sha256 of files, by path, size and time of change.

    Args:
        path: file of JSON lines `{"path", "size", "mtime_ns", "sha256"}`, to which any process may
            append. None: digests are cached in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._digests: dict[tuple[str, int, int], str] = {}
        self.n_read = 0
        """Number of files that were read because their digest was not cached."""
        if path is not None and path.exists():
            self._load(path)

    def _load(self, path: Path) -> None:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = json.loads(line)
                self._digests[row["path"], row["size"], row["mtime_ns"]] = row["sha256"]
            except (ValueError, KeyError, TypeError):
                continue  # torn by a kill: the file is read again

    def digest(self, file: Path) -> str:
        """Return the hex digest (64 digits) of a file's content.

        Raises:
            OSError: the file cannot be read.
        """
        status = file.stat()
        key = (str(file.resolve()), status.st_size, status.st_mtime_ns)
        if key not in self._digests:
            with file.open("rb") as stream:
                self._digests[key] = hashlib.file_digest(stream, "sha256").hexdigest()
            self.n_read += 1
            if self._path is not None and time.time() - status.st_mtime > _SETTLED_S:
                self._store(self._path, key)
        return self._digests[key]

    def _store(self, path: Path, key: tuple[str, int, int]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        row = {"path": key[0], "size": key[1], "mtime_ns": key[2], "sha256": self._digests[key]}
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, f"{json.dumps(row)}\n".encode())
        finally:
            os.close(descriptor)
