"""What a benchmark makes of finished runs: tables, files for others, and what others published."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Protocol

from schemas.dialog import Dialog, Turn
from schemas.episode import Episode
from schemas.problem import Problem
from schemas.run import RunSpec
from schemas.score import Score
from schemas.verdict import JudgeVerdict
from tasks.language.recorded_model import RecordedAnswer
from warehouse.connect import Rows
from warehouse.wide_tables import WideTable


class ExportRows(Protocol):
    """Reads a table from the published warehouse."""

    def __call__(self, home: Path, run_ids: Sequence[str]) -> Rows:
        """Columns and rows; without ids, of the default choice of runs."""
        ...


@dataclass(frozen=True)
class Export:
    """A table of results for other tools, made from the published warehouse."""

    help: str
    rows: ExportRows


@dataclass(frozen=True)
class WholeRun:
    """A run with all that was said, decided and measured in it."""

    spec: RunSpec
    dialogs: Mapping[str, Dialog]
    """Those of its episodes, by row digest."""
    context_of: Callable[[Dialog], Sequence[Turn]]
    """The turns before a dialog's own."""
    episodes: Sequence[Episode]
    scores: Sequence[Score]
    judgements: Sequence[JudgeVerdict]


class MakeFiles(Protocol):
    """Makes the files of a folder, one by one."""

    def __call__(self, run: WholeRun) -> Iterator[tuple[str, bytes]]:
        """Name within the folder, and content."""
        ...


@dataclass(frozen=True)
class FolderExport:
    """A run as a folder of files, for other tools."""

    help: str
    files: MakeFiles


@dataclass(frozen=True)
class FinishedRun:
    """A finished run, as `parley build` reads it."""

    run_id: str
    spec: RunSpec
    finished_at: str
    """UTC, ISO 8601."""
    episodes: Callable[[], Sequence[Episode]]
    """Reads its episodes in no particular order, episodes included that ended by a fault and were never played again."""
    problems: Callable[[], Mapping[str, Problem]] = dict[str, Problem]
    """Reads the problems of its dataset, by id."""


class WriteBuild(Protocol):
    """Writes the files of a build."""

    def __call__(self, runs: Sequence[FinishedRun], folder: Path) -> Sequence[str]:
        """Write into an empty folder; returns lines about the files. Raises UsageError: runs that do not go together."""
        ...


class OwnsFile(Protocol):
    """Tells a build's own files from others, which are never replaced."""

    def __call__(self, name: str) -> bool: ...


@dataclass(frozen=True)
class Build:
    """A folder of files made from finished runs, for others' tools and for other settings."""

    help: str
    settings: tuple[str, ...]
    """Settings whose runs it can be made from, at most one run of each."""
    write: WriteBuild
    owns: OwnsFile


class LayOut(Protocol):
    """Lays out files of others, below a folder that may hold some already."""

    def __call__(
        self,
        out: Path,
        checkouts: Mapping[str, Path],
        only: Sequence[str],
        say: Callable[[str], None],
        listing: Path | None = None,
        fetch: bool = False,
    ) -> Sequence[str]:
        """Lay them out and return a line about each.

        Args:
            fetch: whether repositories without a checkout come from their public address, by git.

        Raises:
            UsageError: a name that nobody knows.
        """
        ...


@dataclass(frozen=True)
class Layout:
    """A folder of other people's files that programs run in: from a package registry, or from checkouts that a user names."""

    help: str
    lay_out: LayOut
    resource: str
    """The benchmark's resource that such a folder is given as."""
    listing: str
    """Name of the resource, a file, by which a user adds to what is laid out."""


def no_names(level: str) -> Mapping[int, str]:
    """Return no names: the positions are numbers."""
    return {}


@dataclass(frozen=True)
class Axis:
    """Axis of the charts over a benchmark's result tables."""

    title: str
    """Name of the axis, with its unit where it has one."""
    positions: Callable[[str], Mapping[int, str]] = no_names
    """Return the names of the positions in tasks of one level; the level is empty where the table has none."""


@dataclass(frozen=True)
class Results:
    """Which tables and files its runs give beside the common ones."""

    marts: tuple[Traversable | WideTable, ...] = ()
    """SQL files and wide tables, in order. NAME_groups.sql places scores in the groups of `results`, others are tables."""
    exports: Mapping[str, Export] = field(default_factory=dict[str, Export])
    """name -> table that `parley export <benchmark>-<name>` writes."""
    folders: Mapping[str, FolderExport] = field(default_factory=dict[str, FolderExport])
    """name -> folder that `parley export <benchmark>-<name>` writes of one run."""
    builds: Mapping[str, Build] = field(default_factory=dict[str, Build])
    """name -> files that `parley build <benchmark>-<name>` makes."""
    layouts: Mapping[str, Layout] = field(default_factory=dict[str, Layout])
    """name -> folder that `parley build <benchmark>-<name>` lays out."""
    axes: Mapping[str, Axis] = field(default_factory=dict[str, Axis])
    """Name of an axis in the result tables -> how charts label it. An axis without an entry keeps its name."""

    @property
    def measures(self) -> Mapping[str, str]:
        """Return column of the wide tables -> its metric."""
        return {
            name: metric
            for mart in self.marts
            if isinstance(mart, WideTable)
            for name, metric in mart.measures.items()
        }


class PublishedAnswers(Protocol):
    """Reads the answers of a published run."""

    def __call__(self, folder: Path, model: str) -> Iterator[RecordedAnswer]:
        """Answers of one model in a folder of published runs."""
        ...


class PublishedData(Protocol):
    """Finds the raw data that published runs were made with."""

    def __call__(self, folder: Path) -> tuple[Path, str] | None:
        """The data and its version, where it lies beside the runs."""
        ...


def no_published_data(folder: Path) -> None:
    """None lies beside them."""
    return


@dataclass(frozen=True)
class Recordings:
    """How others' published runs are read."""

    answers: PublishedAnswers
    raw_data: PublishedData = no_published_data
    judgements: PublishedAnswers | None = None
    """What their judge said, answer by answer (`RecordedAnswer.rubric`); None where nothing of it is published."""
