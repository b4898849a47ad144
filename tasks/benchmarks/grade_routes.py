"""Rows of a dataset, grouped by how their answers are graded."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pydantic import Field

from schemas.base import Frozen


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


class GradeRoutes(Protocol):
    """Function that lists how the rows of a dataset are graded. It uses no network."""

    def __call__(self, dataset: str, source: Path | None) -> Sequence[GradeRoute] | None:
        """Return the routes of all rows by project, or None if only the missing files tell them.

        Args:
            dataset: Name of the public dataset.
            source: Folder with its files. None if they are not on this machine.

        Raises:
            SourceUnreadable: The files hold no readable row.
        """
        ...
