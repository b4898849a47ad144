"""Data of a benchmark: its problems and the location of their raw files."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from schemas.dialog import Context, Dialog, dataset_digest
from schemas.problem import Problem, QuarantinedRow
from tasks.benchmarks.grade_routes import GradeRoutes
from tasks.benchmarks.setting import Options

if TYPE_CHECKING:
    from schemas.lake.packed_rows import PackedRows


@dataclass(frozen=True, init=False)
class Staged:
    """Packed rows of one staged source.

    `len(problems) + len(quarantined) == n_input` always holds.
    """

    dialogs: "PackedRows[Dialog]"
    problems: "PackedRows[Problem]"
    quarantined: tuple[QuarantinedRow, ...]
    n_input: int
    contexts: tuple[Context, ...] = ()
    """Shared contexts before dialogs (`Dialog.context_id`). Empty for rows read from the lake."""

    def __init__(
        self,
        dialogs: Iterable[Dialog],
        problems: Iterable[Problem],
        quarantined: tuple[QuarantinedRow, ...],
        n_input: int,
        contexts: tuple[Context, ...] = (),
    ) -> None:
        from schemas.lake.packed_rows import PackedRows  # slow import

        object.__setattr__(self, "dialogs", PackedRows.of("dialogs", dialogs))
        object.__setattr__(self, "problems", PackedRows.of("problems", problems))
        object.__setattr__(self, "quarantined", quarantined)
        object.__setattr__(self, "n_input", n_input)
        object.__setattr__(self, "contexts", contexts)

    @cached_property
    def digest(self) -> str:
        """Return the digest of all dialog rows and trees: the name of their part of the lake."""
        return dataset_digest(self.dialogs)


class Stage(Protocol):
    """Function that turns raw files into rows."""

    def __call__(self, source: Path, dataset_version: str) -> Staged:
        """Read a file or folder. Raise SourceUnreadable if no row can be read."""
        ...


class Plays(Protocol):
    """Function that selects the dialogs of a setting. A run stages and counts no others."""

    def __call__(self, setting: str, dialog: Dialog) -> bool: ...


def plays_all(setting: str, dialog: Dialog) -> bool:
    """Return True, since every setting has every dialog."""
    return True


class Chooses(Protocol):
    """Function that selects the problems of a run by its options.

    The dialogs of a selection have the same ids as in a run of all problems.
    """

    def __call__(self, options: Options, dialogs: Sequence[Dialog]) -> Collection[str]: ...


@dataclass(frozen=True)
class Data:
    """Problems of a benchmark and the location of their raw files."""

    stage: Stage
    sample: Traversable
    """Bundled sample records in the native format."""
    versions: tuple[str, ...] = ("sample",)
    """Dataset versions. `sample` is always one of them."""
    default_version: str = "sample"
    bundled: Mapping[str, Traversable] = field(default_factory=dict[str, Traversable])
    """Folders of further versions that ship with the benchmark, by version."""
    plays: Plays = plays_all
    chooses: Chooses | None = None
    edition: str = ""
    """Digest of the user's templates for questions. Empty if there are none."""
    demo: Traversable | None = None
    """Configuration of a small night on the sample, for `parley demo <benchmark>`."""
    public: Traversable | None = None
    """YAML file that declares the public datasets (see `public_data.PublicDataset`)."""
    grade_routes: GradeRoutes | None = None
    """Lists how the rows of a dataset are graded, for `parley data show NAME --routes`."""
