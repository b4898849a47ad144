"""What a benchmark makes of finished runs: tables, files for others, and what others published."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path

from schemas.episode import Episode
from schemas.run import RunSpec
from tasks.language.recorded_model import RecordedAnswer
from warehouse.connect import Rows


@dataclass(frozen=True)
class Export:
    """A table of results for other tools, made from the published warehouse."""

    help: str
    rows: Callable[[Path, Sequence[str]], Rows]
    """(home, ids of runs, or none for the default choice) -> columns and rows."""


@dataclass(frozen=True)
class FinishedRun:
    """A finished run, as `parley build` reads it."""

    run_id: str
    spec: RunSpec
    finished_at: str
    """UTC, ISO 8601."""
    episodes: Callable[[], Sequence[Episode]]
    """Reads its episodes in no particular order, episodes included that ended by a fault and were never played again."""


@dataclass(frozen=True)
class Build:
    """A folder of files made from finished runs, for others' tools and for other settings."""

    help: str
    settings: tuple[str, ...]
    """Settings whose runs it can be made from, at most one run of each."""
    write: Callable[[Sequence[FinishedRun], Path], Sequence[str]]
    """(runs, an empty folder) -> lines about the files written there. Raises UsageError: runs that do not go together."""
    owns: Callable[[str], bool]
    """Whether a file of that name may be its own. No other file is ever replaced."""


@dataclass(frozen=True)
class Results:
    """Which tables and files its runs give beside the common ones."""

    marts: tuple[Traversable, ...] = ()
    """SQL files of the benchmark's own result tables, in order; line 1 of each is its grain."""
    exports: Mapping[str, Export] = field(default_factory=dict[str, Export])
    """name -> table that `parley export <benchmark>-<name>` writes."""
    builds: Mapping[str, Build] = field(default_factory=dict[str, Build])
    """name -> files that `parley build <benchmark>-<name>` makes."""


@dataclass(frozen=True)
class Recordings:
    """How others' published runs are read."""

    answers: Callable[[Path, str], Iterator[RecordedAnswer]]
    """(folder of published runs, model name) -> answers."""
    raw_data: Callable[[Path], tuple[Path, str] | None] = lambda folder: None
    """(folder of published runs) -> the raw data they were made with and its version, where it lies beside them."""
