"""Collection of staged problems and dialogs, and of quarantined rows with their reasons."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from schemas.dialog import MISSING, Context, Dialog
from schemas.errors import SourceUnreadable
from schemas.problem import Problem, QuarantinedRow
from tasks.benchmarks.advanced import Resolve
from tasks.benchmarks.data import Staged
from tasks.benchmarks.raw_rows import BadRow, Fault, Line, nothing_read, quarantined_row
from tasks.storage.files.source_trees import TreeDigests, tree_digests
from tasks.storage.home import Home

MakeRow = Callable[[], tuple[Problem, Iterable[Dialog]]]
"""Function that makes a problem and its dialogs. Raises BadRow if the row cannot be staged."""


class Staging:
    """Rows of one source. Each input row is staged or quarantined.

    Of two rows with the same problem id, the first is staged.
    """

    def __init__(self, benchmark: str, dataset_version: str) -> None:
        self._benchmark, self._version = benchmark, dataset_version
        self._first_seen: dict[str, str] = {}
        self._n_input = self._n_lines = 0
        from schemas.lake.packed_rows import PackedRows  # slow import

        self.problems = PackedRows[Problem]("problems")
        self.dialogs = PackedRows[Dialog]("dialogs")
        self.quarantined: list[QuarantinedRow] = []

    def add_lines(
        self,
        file: str,
        lines: Iterable[Line | Fault],
        make: Callable[[Line], tuple[Problem, Iterable[Dialog]]],
    ) -> None:
        """Stage or quarantine each row of a file.

        Args:
            file: File name as shown in tables.
            lines: Rows of the file.
            make: Function from row to problem and dialogs. Raises BadRow if the row cannot be
                staged.
        """
        for line in lines:
            if isinstance(line, Fault):
                self.quarantine(file, line.number, BadRow(line.reason, line.detail))
            else:
                self._n_lines += 1
                self.add(file, line.number, lambda line=line: make(line), line.content)

    def add(self, file: str, number: int, make: MakeRow, content: bytes = b"") -> bool:
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

    def require_lines(self, source: Path, n_files: int) -> None:
        """Raise SourceUnreadable if no file has a single line."""
        if not self._n_lines:
            raise SourceUnreadable(nothing_read(source, n_files, self.quarantined))

    def staged(self, contexts: Iterable[Context] = ()) -> Staged:
        """Return all rows added so far."""
        return Staged(
            self.dialogs, self.problems, tuple(self.quarantined), self._n_input, tuple(contexts)
        )


@dataclass(frozen=True)
class Source:
    """Location of the files in which a dialog's programs run."""

    resource: str
    """Name of the benchmark's resource."""
    folder: str
    """Folder of the files, relative to the resource's folder."""
    packages: str = ""
    """Subfolder with installed packages, which are identified by name and version."""


class FindSource(Protocol):
    """Function that returns the location of a dialog's files, or None if it needs none."""

    def __call__(self, dialog: Dialog) -> Source | None: ...


class FitsSource(Protocol):
    """Function that checks if a dialog's programs can run in a folder's files.

    Another release may lack the files that the programs change.
    """

    def __call__(self, dialog: Dialog, folder: Path) -> bool: ...


def trees_below_resources(source_of: FindSource, fits: FitsSource) -> Resolve:
    """Return a `Resolve` hook that adds to each dialog the digests of its files.

    The files stay in the resource's folder. A dialog whose files are missing or unsuitable is
    marked: it is not requested, and its scores are unscored for that reason.
    """

    def resolve(
        staged: Staged, source: Path | None, resources: Mapping[str, Path], home: Home
    ) -> Staged:
        digests_by_source: dict[Source, TreeDigests | None] = {}

        def with_tree(dialog: Dialog) -> Dialog:
            location = source_of(dialog)
            if location is None:
                return dialog
            folder = (
                resources[location.resource] / location.folder
                if location.resource in resources
                else None
            )
            if location not in digests_by_source:
                digests_by_source[location] = (
                    tree_digests(folder, location.packages)
                    if folder is not None and folder.is_dir()
                    else None
                )
            digests = digests_by_source[location]
            if digests is None or folder is None or not fits(dialog, folder):
                return dialog.with_tree(MISSING)
            return dialog.with_tree(digests.source, digests.packages)

        return replace(staged, dialogs=map(with_tree, staged.dialogs))

    return resolve
