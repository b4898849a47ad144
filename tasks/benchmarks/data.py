"""What a benchmark asks, and where its rows lie."""

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
    """Result of staging one source: `len(problems) + len(quarantined) == n_input`, always. Its rows are packed."""

    dialogs: "PackedRows[Dialog]"
    problems: "PackedRows[Problem]"
    quarantined: tuple[QuarantinedRow, ...]
    n_input: int
    contexts: tuple[Context, ...] = ()
    """Long conversations before the dialogs, each once (`Dialog.context_id`); none where they were read from the lake."""

    def __init__(
        self,
        dialogs: Iterable[Dialog],
        problems: Iterable[Problem],
        quarantined: tuple[QuarantinedRow, ...],
        n_input: int,
        contexts: tuple[Context, ...] = (),
    ) -> None:
        from schemas.lake.packed_rows import PackedRows  # pyarrow: no quick command needs it

        object.__setattr__(self, "dialogs", PackedRows.of("dialogs", dialogs))
        object.__setattr__(self, "problems", PackedRows.of("problems", problems))
        object.__setattr__(self, "quarantined", quarantined)
        object.__setattr__(self, "n_input", n_input)
        object.__setattr__(self, "contexts", contexts)

    @cached_property
    def digest(self) -> str:
        """Digest over the rows of all dialogs and what their programs run in: the name of their part in the lake."""
        return dataset_digest(self.dialogs)


class Stage(Protocol):
    """Turns raw files into rows."""

    def __call__(self, source: Path, dataset_version: str) -> Staged:
        """Read a file or folder. Raises SourceUnreadable where nothing at all can be read."""
        ...


class Plays(Protocol):
    """Tells which dialogs a setting has. A run stages, counts and digests no other."""

    def __call__(self, setting: str, dialog: Dialog) -> bool: ...


def plays_all(setting: str, dialog: Dialog) -> bool:
    """Every setting has every dialog."""
    return True


class Chooses(Protocol):
    """Tells which problems a run asks, by its options. Its dialogues are those of a run that asks all."""

    def __call__(self, options: Options, dialogs: Sequence[Dialog]) -> Collection[str]: ...


@dataclass(frozen=True)
class Data:
    """What is asked, and where it lies."""

    stage: Stage
    sample: Traversable
    """The bundled records, in the native format."""
    versions: tuple[str, ...] = ("sample",)
    """`sample` is always among them."""
    default_version: str = "sample"
    bundled: Mapping[str, Traversable] = field(default_factory=dict[str, Traversable])
    """Of other versions that come with the benchmark: the folder of each."""
    plays: Plays = plays_all
    chooses: Chooses | None = None
    edition: str = ""
    """Digest of the user's templates by which `stage` words its questions; empty where none do."""
    demo: Traversable | None = None
    """A small night on the sample, for `parley demo <benchmark>`."""
    public: Traversable | None = None
    """Declaration of its public datasets, a YAML file; see `public_data.PublicDataset`."""
    grade_routes: GradeRoutes | None = None
    """Lists the ways in which a dataset's rows are graded, for `parley data show NAME --routes`."""
