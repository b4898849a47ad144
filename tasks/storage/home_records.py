"""Small records of a home: reviewed builds, subsamples, and digests of large files.

A subsample is the share of a run's tasks that a budget allowed. It is stored because the estimates,
and with them the share, change with every run.
"""

import hashlib
import json
import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tasks.judging.rubric import RatingScale, Scales
from tasks.storage.home import Home
from tasks.storage.new_folder import replace_file

_FILE = "reviewed.json"


@dataclass(frozen=True)
class Reviewed:
    """Benchmark and rating scales of an item on a review sheet. Older sheets have no scales."""

    benchmark: str
    scales: Scales | None = None


def note_reviewed(
    folder: Path, benchmark: str, ids: Collection[str], scales: Scales | None = None
) -> None:
    """Store the ids of a build's review sheet. Ids of the build's earlier sheets remain.

    Args:
        folder: folder of the build.
        benchmark: benchmark of the items.
        ids: ids of the items on the sheet.
        scales: rating scales of the sheet's rubrics.
    """
    if ids:
        earlier = _items(folder / _FILE).keys()
        content: dict[str, Any] = {"benchmark": benchmark, "ids": sorted({*earlier, *ids})}
        if scales:
            content["scales"] = {
                rubric: {
                    name: {"ends": scale.ends, "words": scale.words}
                    for name, scale in dimensions.items()
                }
                for rubric, dimensions in scales.items()
            }
        replace_file(folder / _FILE, json.dumps(content, indent=1).encode())


def reviewed_items(home: Home) -> Mapping[str, Reviewed]:
    """Return the items on the review sheets of all builds, by id."""
    return {
        name: item
        for path in sorted(home.builds.glob(f"*/{_FILE}"))
        for name, item in _items(path).items()
    }


def _items(path: Path) -> dict[str, Reviewed]:
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        content = json.loads(path.read_text(encoding="utf-8"))
        scales = {
            rubric: dict(_scales(dimensions))
            for rubric, dimensions in content.get("scales", {}).items()
        } or None
        return dict.fromkeys(map(str, content["ids"]), Reviewed(str(content["benchmark"]), scales))
    return {}


def _scales(dimensions: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, RatingScale]]:
    return [
        (name, RatingScale(tuple(scale["ends"]) if scale["ends"] else None, tuple(scale["words"])))
        for name, scale in dimensions.items()
    ]


@dataclass(frozen=True)
class StoredShare:
    """Share of a run's tasks that the budget allows.

    Attributes:
        run: digest of the run, its number of tasks, and the budget.
        night: digest of the settings of all runs that share the budget, and the budget.
        share: share of the run's tasks, 0 to 1.
    """

    run: str
    night: str
    share: float


class StoredShares:
    """Stored shares, in a file of JSON lines to which any process may append.

    If a run has several lines, the first one counts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._of_run: dict[str, float] = {}
        self._of_night: dict[str, float] = {}
        for line in _lines(path):
            with suppress(ValueError, TypeError):  # Torn by a kill before the run began.
                row = StoredShare(**json.loads(line))
                self._of_run.setdefault(row.run, row.share)
                self._of_night[row.night] = row.share

    def of_run(self, run: str) -> float | None:
        """Return the stored share of a run; None if there is none."""
        return self._of_run.get(run)

    def of_night(self, night: str) -> float | None:
        """Return the latest share stored under the digest of a night; None if there is none."""
        return self._of_night.get(night)

    def add(self, share: StoredShare) -> None:
        """Append a share to the file.

        Raises:
            OSError: the share could not be written.
        """
        _append(self._path, asdict(share))


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
        for line in _lines(path) if path is not None else ():
            with suppress(ValueError, KeyError, TypeError):  # Torn by a kill: read the file again.
                row = json.loads(line)
                self._digests[row["path"], row["size"], row["mtime_ns"]] = row["sha256"]

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
                path, size, mtime_ns = key
                row = {"path": path, "size": size, "mtime_ns": mtime_ns}
                _append(self._path, {**row, "sha256": self._digests[key]})
        return self._digests[key]


def _lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _append(path: Path, row: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{json.dumps(row)}\n".encode())
    finally:
        os.close(descriptor)
