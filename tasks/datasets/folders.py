"""Where fetched datasets lie: `$PARLEY_DATA`, else the folder `data` of the home.

Each dataset has a folder there, and beside it a receipt that says what was fetched and from where.
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
from tasks.benchmarks.public_data import PublicDataset, content_digest
from tasks.storage.home import Home
from tasks.storage.replaced_file import replace_file

VARIABLE = "PARLEY_DATA"
"""Names a folder that several homes share for fetched datasets."""


class State(StrEnum):
    """What of a dataset is on this machine."""

    FETCHED = "fetched"
    """All files, and they were verified."""
    BROUGHT = "not verified"
    """All files, as far as they are known; nobody verified them."""
    UNFINISHED = "unfinished"
    """A download was stopped, or some files are missing."""
    ABSENT = "absent"


class ReceivedFile(Frozen):
    """A verified file of a dataset."""

    bytes: int
    sha256: str


class Receipt(Frozen):
    """What was fetched, and from where."""

    source: str
    revision: str = ""
    """Commit or version that the source resolved to."""
    files: dict[str, ReceivedFile]
    """Place -> file."""

    @property
    def digest(self) -> str:
        """Digest of the whole content."""
        return content_digest({place: file.sha256 for place, file in self.files.items()})


@dataclass(frozen=True)
class DataFolders:
    """Folders of the fetched datasets."""

    root: Path

    @classmethod
    def of(cls, home: Home, environ: Mapping[str, str] = os.environ) -> "DataFolders":
        """Return the folders that a home uses."""
        return cls(Path(environ.get(VARIABLE) or home.path / "data").expanduser().absolute())

    def folder(self, dataset: PublicDataset) -> Path:
        """Return the folder of the dataset's files: what `--data NAME` stands for."""
        return self.root / dataset.benchmark / dataset.name

    def partial(self, dataset: PublicDataset) -> Path:
        """Return the folder of downloads that are not finished."""
        return self.root / dataset.benchmark / f".{dataset.name}.partial"

    def receipt(self, dataset: PublicDataset) -> Receipt | None:
        """Return what was fetched; None where nothing was, or the receipt cannot be read."""
        try:
            return Receipt.model_validate_json(self._receipt_file(dataset).read_bytes())
        except (OSError, ValidationError):
            return None

    def write_receipt(self, dataset: PublicDataset, receipt: Receipt) -> None:
        """Note what was fetched: from now on the dataset counts as fetched."""
        replace_file(
            self._receipt_file(dataset), (receipt.model_dump_json(indent=1) + "\n").encode()
        )

    def state(self, dataset: PublicDataset) -> State:
        """Return what of the dataset is here. Looks at names and sizes, and reads no data."""
        folder, receipt = self.folder(dataset), self.receipt(dataset)
        if receipt is not None and all(
            _size(folder / place) == file.bytes for place, file in receipt.files.items()
        ):
            return State.FETCHED
        there = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
        if there and all(
            _may_be(folder / place, facts.bytes) for place, facts in dataset.files.items()
        ):
            return State.BROUGHT
        return State.UNFINISHED if there or self.partial(dataset).exists() else State.ABSENT

    @contextmanager
    def lock(self, dataset: PublicDataset) -> Iterator[None]:
        """Hold a dataset while it is fetched, against every home that shares the folder.

        Raises:
            UsageError: another process holds it.
        """
        from filelock import FileLock, Timeout

        file = self.root / dataset.benchmark / f".{dataset.name}.lock"
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(file)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(
                f"another process fetches {dataset.full_name}. Wait for its end, then type the same command again"
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
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return ReceivedFile(bytes=path.stat().st_size, sha256=digest)


def _may_be(path: Path, size: int | None) -> bool:
    found = _size(path)
    return found is not None and size in (None, found)


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None
