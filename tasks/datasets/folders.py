"""Locate fetched datasets in `$PARLEY_DATA`, or else in the folder `data` of the home.

Each dataset has a folder there. A receipt beside it records what was fetched and from where.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from schemas.base import Frozen
from schemas.errors import UsageError
from tasks.datasets.public_data import PublicDataset, content_digest
from tasks.storage.home import Home
from tasks.storage.new_folder import replace_file

VARIABLE = "PARLEY_DATA"
"""Environment variable of a data folder that several homes share."""


class State(StrEnum):
    """Completeness of a dataset on this machine."""

    FETCHED = "fetched"
    """All files exist and were verified."""
    BROUGHT = "not verified"
    """All expected files exist but were not verified."""
    UNFINISHED = "unfinished"
    """A download was interrupted, or some files are missing."""
    ABSENT = "absent"


class ReceivedFile(Frozen):
    """Verified file of a dataset."""

    bytes: int
    sha256: str


class Receipt(Frozen):
    """Record of the files fetched for a dataset and of their source."""

    source: str
    revision: str = ""
    """Commit or version to which the source resolved."""
    files: dict[str, ReceivedFile]
    """Files by path relative to the dataset's folder."""

    @property
    def digest(self) -> str:
        """Return the digest of all files."""
        return content_digest({place: file.sha256 for place, file in self.files.items()})


@dataclass(frozen=True)
class DataFolders:
    """Folders of the fetched datasets."""

    root: Path

    @classmethod
    def of(cls, home: Home, environ: Mapping[str, str] = os.environ) -> "DataFolders":
        """Return the data folders of a home."""
        return cls(Path(environ.get(VARIABLE) or home.path / "data").expanduser().absolute())

    def folder(self, dataset: PublicDataset) -> Path:
        """Return the folder of the dataset's files, to which `--data NAME` refers."""
        return self.root / dataset.benchmark / dataset.name

    def partial(self, dataset: PublicDataset) -> Path:
        """Return the folder of incomplete downloads."""
        return self.root / dataset.benchmark / f".{dataset.name}.partial"

    def receipt(self, dataset: PublicDataset) -> Receipt | None:
        """Return the dataset's receipt, or None if it is missing or unreadable."""
        try:
            return Receipt.model_validate_json(self._receipt_file(dataset).read_bytes())
        except (OSError, ValidationError):
            return None

    def write_receipt(self, dataset: PublicDataset, receipt: Receipt) -> None:
        """Write the dataset's receipt. From then on the dataset counts as fetched."""
        replace_file(
            self._receipt_file(dataset), (receipt.model_dump_json(indent=1) + "\n").encode()
        )

    def state(self, dataset: PublicDataset) -> State:
        """Return the state of the dataset, judged by file names and sizes alone."""
        folder, receipt = self.folder(dataset), self.receipt(dataset)
        if receipt is not None and all(
            _size(folder / place) == file.bytes for place, file in receipt.files.items()
        ):
            return State.FETCHED
        existing = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
        if existing and all(
            _may_be(folder / place, facts.bytes) for place, facts in dataset.files.items()
        ):
            return State.BROUGHT
        return State.UNFINISHED if existing or self.partial(dataset).exists() else State.ABSENT

    @contextmanager
    def lock(self, dataset: PublicDataset) -> Iterator[None]:
        """Lock a dataset against other processes while it is fetched.

        This also works if several homes share the data folder.

        Raises:
            UsageError: Another process holds the lock.
        """
        from filelock import FileLock, Timeout

        file = self.root / dataset.benchmark / f".{dataset.name}.lock"
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(file)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(
                f"another process is fetching {dataset.full_name}. "
                "Wait until it has finished, then repeat the command"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _receipt_file(self, dataset: PublicDataset) -> Path:
        return self.root / dataset.benchmark / f"{dataset.name}.receipt.json"


def received(path: Path) -> ReceivedFile:
    """Return size and digest of a file.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return ReceivedFile(bytes=path.stat().st_size, sha256=digest)


def _may_be(path: Path, size: int | None) -> bool:
    actual = _size(path)
    return actual is not None and size in (None, actual)


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None
