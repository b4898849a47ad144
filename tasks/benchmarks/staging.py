"""Data of a benchmark: where its raw files are, and its staged problems and dialogs.

`Staging` collects staged rows, and quarantined rows with their reasons.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.dialog import Context, Dialog, Role, Turn, dataset_digest
from schemas.errors import SourceUnreadable
from schemas.problem import (
    BASE_INSTRUCTION,
    Instruction,
    Problem,
    QuarantinedRow,
    RepoSnapshot,
    TestSuite,
)
from tasks.benchmarks.raw_rows import (
    BadRow,
    Fault,
    Line,
    is_hub_dataset,
    read_hub,
    read_rows,
    relative_name,
)
from tasks.benchmarks.setting import Options

if TYPE_CHECKING:
    from schemas.lake.rows import PackedRows


class GradeRoute(Frozen):
    """Rows of one project that are graded by one runner on one Python version."""

    project: str
    versions: tuple[str, ...]
    """Versions of the project. More than one if the version of a row is not known exactly."""
    python: str
    """Python version on which upstream runs the tests. Empty if unknown."""
    runner: str
    """Program that runs the tests. Empty if unknown."""
    command: tuple[str, ...] = ()
    """Arguments of the runner before the test names. Empty for pytest."""
    problem_ids: tuple[str, ...]
    exceptions: Mapping[str, str] = Field(default_factory=dict)
    """Reason why a row cannot be graded in a sandbox without a network, by problem id."""

    @property
    def n_gradable(self) -> int:
        """Return the number of rows that can be graded this way."""
        return len(self.problem_ids) - len(self.exceptions)


GradeRoutes = Callable[[str, Path | None], Sequence[GradeRoute] | None]
"""Function (dataset, folder with its files, if any) -> routes of all rows by project.

It returns None if they depend on files that are missing, raises SourceUnreadable if the files hold
no readable row, and uses no network.
"""


@dataclass(frozen=True, init=False)
class Staged:
    """Rows of one staged source. Dialogs and problems are packed to save memory.

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
        from schemas.lake.rows import PackedRows  # slow import

        object.__setattr__(self, "dialogs", PackedRows.of("dialogs", dialogs))
        object.__setattr__(self, "problems", PackedRows.of("problems", problems))
        object.__setattr__(self, "quarantined", quarantined)
        object.__setattr__(self, "n_input", n_input)
        object.__setattr__(self, "contexts", contexts)

    @cached_property
    def digest(self) -> str:
        """Return the digest of all dialog rows and trees, which names their part in the lake."""
        return dataset_digest(self.dialogs)


Stage = Callable[[Path, str], Staged]
"""Function (file or folder, dataset version) -> rows. It raises SourceUnreadable without a row."""
Plays = Callable[[str, Dialog], bool]
"""Function (setting, dialog) -> True if the setting has the dialog. A run stages no others."""


Chooses = Callable[[Options, Sequence[Dialog]], Collection[str]]
"""Function that selects the problems of a run by its options.

The dialogs of a selection have the same ids as in a run of all problems.
"""


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
    plays: Plays = lambda setting, dialog: True
    chooses: Chooses | None = None
    edition: str = ""
    """Digest of the question templates in `--templates DIR`. Empty without such templates."""
    demo: Traversable | None = None
    """Configuration of a small night on the sample, for `parley demo <benchmark>`."""
    public: Traversable | None = None
    """YAML file that declares the public datasets (see `tasks.datasets.public_data`)."""
    grade_routes: GradeRoutes | None = None
    """Lists how the rows of a dataset are graded, for `parley data show NAME --routes`."""


@dataclass(frozen=True, slots=True)
class RawRow:
    """Row of a raw file with its origin."""

    benchmark: str
    version: str
    """Dataset version."""
    file: str
    """File name as shown in tables."""
    line: int
    fields: dict[str, Any] = field(default_factory=dict[str, Any])

    def digest(self, content: object) -> str:
        """Return the content id of the row or of a part. Raise BadRow if it has none."""
        try:
            return content_id(content)
        except (ValueError, RecursionError) as fault:
            raise BadRow("wrong_type", str(fault)) from None

    def problem(
        self,
        problem_id: str,
        prompt: str,
        suite: TestSuite,
        reference: str,
        digest: str,
        *,
        level: str = "all",
        title: str = "",
        others: tuple[Instruction, ...] = (),
        packages: tuple[str, ...] = (),
        repo: RepoSnapshot | None = None,
    ) -> Problem:
        """Return the problem of the row.

        Args:
            problem_id: Id of the problem.
            prompt: Text of the task.
            suite: Tests of the base instruction.
            reference: Reference program, patch or answer.
            digest: Digest of the row's content.
            level: Group of tasks in result tables.
            title: Text of the base instruction, if it is not the prompt.
            others: Instructions after the base instruction.
            packages: Distributions that the tests import.
            repo: Repository of the task.
        """
        base = Instruction(instruction_id=BASE_INSTRUCTION, text=title or prompt, suite=suite)
        return Problem(
            benchmark=self.benchmark,
            dataset_version=self.version,
            problem_id=problem_id,
            level=level,
            prompt=prompt,
            instructions=(base, *others),
            reference_code=reference,
            packages=packages,
            source_file=self.file,
            source_line=self.line,
            row_digest=digest,
            repo=repo,
        )


def question(
    number: int,
    text: str,
    instruction_id: str = BASE_INSTRUCTION,
    labels: tuple[tuple[str, str], ...] = (),
) -> tuple[Turn, Turn]:
    """Return a round of a dialog: the user's message, and the place of the model's answer."""
    message = Turn(
        turn=number, role=Role.USER, content=text, instruction_id=instruction_id, labels=labels
    )
    return message, Turn(turn=number, role=Role.ASSISTANT)


def dialog_of(
    problem: Problem,
    turns: Iterable[Turn],
    labels: tuple[tuple[str, str], ...],
    dialog_id: str = "",
    digest: str = "",
) -> Dialog:
    """Return a dialog over a problem.

    Args:
        problem: Problem of the dialog.
        turns: Turns of the dialog.
        labels: Labels of the dialog.
        dialog_id: Id of the dialog. Default: the problem's.
        digest: Digest of the problem's row and the dialog's own rows, if the dialog has any.
    """
    return Dialog(
        benchmark=problem.benchmark,
        dataset_version=problem.dataset_version,
        dialog_id=dialog_id or problem.problem_id,
        problem_id=problem.problem_id,
        turns=tuple(turns),
        labels=labels,
        row_digest=digest or problem.row_digest,
        problem_digest=problem.row_digest if digest else "",
    )


MakeRow = Callable[[RawRow], tuple[Problem, Iterable[Dialog]]]
"""Function that makes a problem and its dialogs. Raises BadRow if the row cannot be staged."""


EXCERPT_LENGTH = 200


def quarantined_row(
    benchmark: str, dataset_version: str, file: str, line: int, bad: BadRow, content: bytes = b""
) -> QuarantinedRow:
    """Return the record of a row that could not be staged, with the start of its `content`."""
    return QuarantinedRow(
        benchmark=benchmark,
        dataset_version=dataset_version,
        source_file=file,
        source_line=line,
        reason=bad.reason,
        detail=bad.detail,
        excerpt=content[: EXCERPT_LENGTH * 4].decode("utf-8", "replace")[:EXCERPT_LENGTH],
    )


class Staging:
    """Rows of one source. Each input row is staged or quarantined.

    Of two rows with the same problem id, the first is staged.
    """

    def __init__(self, benchmark: str, dataset_version: str) -> None:
        self._benchmark, self._version = benchmark, dataset_version
        self._first_seen: dict[str, str] = {}
        self._n_input = self._n_lines = 0
        from schemas.lake.rows import PackedRows  # slow import

        self.problems = PackedRows[Problem]("problems")
        self.dialogs = PackedRows[Dialog]("dialogs")
        self.quarantined: list[QuarantinedRow] = []

    def add_source(
        self,
        source: Path,
        find: Callable[[Path], Sequence[Path]],
        make: MakeRow,
        columns: Collection[str] = (),
    ) -> None:
        """Stage or quarantine each row of the files of a source.

        An input row is a line that is not blank, a row of a table, or a fault that ends a file.

        Args:
            source: File or folder, or a hub dataset (`hf:OWNER/NAME@SPLIT`) if there are `columns`.
            find: Function that returns the files of the source.
            make: Function from row to problem and dialogs.
            columns: Columns to read from tables.

        Raises:
            SourceUnreadable: No file has a single line, or the hub dataset cannot be read.
        """
        tables: list[tuple[str, Iterable[Line | Fault]]] = (
            [read_hub(source, columns)]
            if columns and is_hub_dataset(source)
            else [(relative_name(path, source), read_rows(path, columns)) for path in find(source)]
        )
        for file, lines in tables:
            for line in lines:
                self._n_lines += isinstance(line, Line)
                self._add_line(file, line, make)
        if not self._n_lines:
            faults = (f"{row.source_file}: {row.detail}" for row in self.quarantined)
            details = "; ".join(faults) or f"{len(tables)} empty file(s)"
            raise SourceUnreadable(
                f"{source} has task files but no readable row ({details}). "
                "Fetch them again, or name another file or folder"
            )

    def _add_line(self, file: str, line: Line | Fault, make: MakeRow) -> None:
        def make_row() -> tuple[Problem, Iterable[Dialog]]:
            return make(RawRow(self._benchmark, self._version, file, line.number, line.fields()))

        self.add(file, line.number, make_row, line.content)

    def add(
        self,
        file: str,
        number: int,
        make: Callable[[], tuple[Problem, Iterable[Dialog]]],
        content: bytes = b"",
    ) -> bool:
        """Stage or quarantine one row.

        Args:
            file: File name as shown in tables.
            number: Line number.
            make: Function that makes the problem and its dialogs.
            content: Row as read, for the table of quarantined rows.

        Returns:
            True if the row was staged.
        """
        try:
            problem, dialogs = make()
            name = problem.problem_id
            if name in self._first_seen:
                raise BadRow(
                    "duplicate_id",
                    f"{name} already occurs in {self._first_seen[name]}, which is used",
                )
        except BadRow as bad:
            self.quarantine(file, number, bad, content)
            return False
        self._n_input += 1
        self._first_seen[name] = f"{file}:{number}"
        self.problems.append(problem)
        self.dialogs.extend(dialogs)
        return True

    def quarantine(self, file: str, number: int, bad: BadRow, content: bytes = b"") -> None:
        """Record an input row that cannot be staged."""
        self._n_input += 1
        self.quarantined.append(
            quarantined_row(self._benchmark, self._version, file, number, bad, content)
        )

    def staged(self, contexts: Iterable[Context] = ()) -> Staged:
        """Return all rows added so far."""
        return Staged(
            self.dialogs, self.problems, tuple(self.quarantined), self._n_input, tuple(contexts)
        )
