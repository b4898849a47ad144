"""Digests of files that were read before, so that a large checkpoint is not read again each night."""

import hashlib
import json
import os
import time
from pathlib import Path

_SETTLED_S = 2.0
"""A file that changed so lately may change again within one tick of its clock, unseen: its digest is not kept."""


class FileDigests:
    """sha256 of files, remembered by path, size and time of change.

    Args:
        kept: JSON lines, `{"path", "size", "mtime_ns", "sha256"}` each, to which any process may add one at any time. None: this
            object alone remembers.
    """

    def __init__(self, kept: Path | None = None) -> None:
        self._kept = kept
        self._known: dict[tuple[str, int, int], str] = {}
        self.n_read = 0
        """Files that were read because nothing was known of them."""
        if kept is not None and kept.exists():
            self._load(kept)

    def _load(self, kept: Path) -> None:
        for line in kept.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = json.loads(line)
                self._known[row["path"], row["size"], row["mtime_ns"]] = row["sha256"]
            except (ValueError, KeyError, TypeError):
                continue  # torn by a kill: the file is read again

    def digest(self, file: Path) -> str:
        """Hex digest (64 digits) of a file's content.

        Raises:
            OSError: the file cannot be read.
        """
        found = file.stat()
        key = (str(file.resolve()), found.st_size, found.st_mtime_ns)
        if key not in self._known:
            with file.open("rb") as stream:
                self._known[key] = hashlib.file_digest(stream, "sha256").hexdigest()
            self.n_read += 1
            if self._kept is not None and time.time() - found.st_mtime > _SETTLED_S:
                self._keep(self._kept, key)
        return self._known[key]

    def _keep(self, kept: Path, key: tuple[str, int, int]) -> None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        row = {"path": key[0], "size": key[1], "mtime_ns": key[2], "sha256": self._known[key]}
        descriptor = os.open(kept, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, f"{json.dumps(row)}\n".encode())
        finally:
            os.close(descriptor)
