"""Collection of staged problems and dialogs, and of quarantined rows with their reasons."""

from collections.abc import Callable, Iterable
from pathlib import Path

from schemas.dialog import Context, Dialog
from schemas.errors import SourceUnreadable
from schemas.problem import Problem, QuarantinedRow
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_lines import BadRow, Fault, Line, nothing_read, quarantined_row

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
