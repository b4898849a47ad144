"""Results of finished runs: tables, exported files, and imports of published results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path

from schemas.dialog import Dialog, Turn
from schemas.episode import Episode, Score
from schemas.problem import Problem
from schemas.run import RunSpec
from schemas.verdict import JudgeVerdict
from tasks.language.recorded_model import RecordedAnswer
from warehouse.connect import Rows
from warehouse.wide_tables import WideTable

ExportRows = Callable[[Path, Sequence[str]], Rows]
"""Function (home, run ids) -> columns and rows of a table, read from the published warehouse.

Without ids, it uses the default selection of runs.
"""


@dataclass(frozen=True)
class Export:
    """Table of results for other tools, read from the published warehouse."""

    help: str
    rows: ExportRows


@dataclass(frozen=True)
class WholeRun:
    """Complete contents of a run."""

    spec: RunSpec
    dialogs: Mapping[str, Dialog]
    """Dialogs of the episodes, by row digest."""
    context_of: Callable[[Dialog], Sequence[Turn]]
    """Returns the turns of the shared context before a dialog."""
    episodes: Sequence[Episode]
    scores: Sequence[Score]
    judgements: Sequence[JudgeVerdict]


MakeFiles = Callable[[WholeRun], Iterator[tuple[str, bytes]]]
"""Function that yields the files of a run's export: path in the output folder, and content."""


@dataclass(frozen=True)
class FolderExport:
    """Export of a run as a folder of files for other tools."""

    help: str
    files: MakeFiles


@dataclass(frozen=True)
class FinishedRun:
    """Finished run as read by `parley build`."""

    run_id: str
    spec: RunSpec
    finished_at: str
    """Time at which the run finished: UTC, ISO 8601."""
    episodes: Callable[[], Sequence[Episode]]
    """Reads the episodes in any order.

    Episodes that ended with a fault and were never repeated are included.
    """
    problems: Callable[[], Mapping[str, Problem]] = dict[str, Problem]
    """Reads the problems of the run's dataset, by id."""


WriteBuild = Callable[[Sequence[FinishedRun], Path], Sequence[str]]
"""Function that writes the files of a build into an empty folder and returns a line about each.

It raises UsageError if the runs cannot be combined.
"""
OwnsFile = Callable[[str], bool]
"""Function that tells a build's own files from other files, which are never replaced."""


@dataclass(frozen=True)
class Build:
    """Folder of files made from finished runs, for other tools or other settings."""

    help: str
    settings: tuple[str, ...]
    """Settings whose runs the build accepts, with at most one run of each."""
    write: WriteBuild
    owns: OwnsFile


LayOut = Callable[
    [Path, Mapping[str, Path], Sequence[str], Callable[[str], None], Path | None, bool],
    Sequence[str],
]
"""Function that writes external files below a folder, which may hold some, and describes each.

Its arguments are the folder, git checkouts by repository, names (all if empty), a function that
shows progress, a file with additional entries, and True to clone repositories without a checkout.
It raises UsageError for an unknown name.
"""


@dataclass(frozen=True)
class Layout:
    """Folder of external files in which programs run.

    The files come from a package registry or from checkouts named by `--checkout`.
    """

    help: str
    lay_out: LayOut
    resource: str
    """Resource of the benchmark to which the folder is passed."""
    listing: str
    """NAME of the option `--resource NAME=FILE` whose file adds entries."""


@dataclass(frozen=True)
class Axis:
    """Axis of charts over a benchmark's result tables."""

    title: str
    """Title of the axis, with its unit if any."""
    positions: Callable[[str], Mapping[int, str]] = lambda level: {}
    """Names of the positions for tasks of one level. The level is empty if the table has none.

    Positions without a name are shown as numbers.
    """


@dataclass(frozen=True)
class Results:
    """Tables and files of a benchmark's runs besides the common ones."""

    marts: tuple[Traversable | WideTable, ...] = ()
    """SQL files and wide tables, in order.

    NAME_groups.sql assigns scores to the groups of `results`. All others are tables.
    """
    exports: Mapping[str, Export] = field(default_factory=dict[str, Export])
    """Tables that `parley export <benchmark>-<name>` writes, by name."""
    folders: Mapping[str, FolderExport] = field(default_factory=dict[str, FolderExport])
    """Folders that `parley export <benchmark>-<name>` writes for one run, by name."""
    builds: Mapping[str, Build] = field(default_factory=dict[str, Build])
    """Files that `parley build <benchmark>-<name>` makes, by name."""
    layouts: Mapping[str, Layout] = field(default_factory=dict[str, Layout])
    """Folders that `parley build <benchmark>-<name>` lays out, by name."""
    axes: Mapping[str, Axis] = field(default_factory=dict[str, Axis])
    """Chart labels of the axes in result tables, by axis.

    An axis without an entry keeps its name.
    """

    @property
    def measures(self) -> Mapping[str, str]:
        """Return the metric of each column of the wide tables."""
        return {
            name: metric
            for mart in self.marts
            if isinstance(mart, WideTable)
            for name, metric in mart.measures.items()
        }


PublishedAnswers = Callable[[Path, str], Iterator[RecordedAnswer]]
"""Function (folder of published runs, model) -> the model's answers."""
PublishedData = Callable[[Path], tuple[Path, str] | None]
"""Function that returns path and version of the raw data of a folder of published runs.

None: the folder does not tell where they are.
"""


@dataclass(frozen=True)
class Recordings:
    """Functions that read a benchmark's published runs: answers, raw data and judgements."""

    answers: PublishedAnswers
    raw_data: PublishedData = lambda folder: None
    judgements: PublishedAnswers | None = None
    """Reads the published judgements of each answer (`RecordedAnswer.rubric`).

    None if none are published.
    """
