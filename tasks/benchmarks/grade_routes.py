"""Rows of a dataset by the way in which their answers are graded."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pydantic import Field

from schemas.base import Frozen


class GradeRoute(Frozen):
    """Rows of one project that one runner grades on one Python."""

    project: str
    versions: tuple[str, ...]
    """Versions of the project. Several where the facts only narrow down which one a row has."""
    python: str
    """Version of Python that upstream runs the tests on; empty where nothing names one."""
    runner: str
    """Program that runs the tests; empty where no runner is known."""
    command: tuple[str, ...] = ()
    """Words of the runner's command before the tests' names; empty where the runner is pytest."""
    problem_ids: tuple[str, ...]
    exceptions: Mapping[str, str] = Field(default_factory=dict)
    """Problem id -> why this way cannot grade it in a sandbox without a network."""

    @property
    def n_gradable(self) -> int:
        """Number of rows that this way grades by design."""
        return len(self.problem_ids) - len(self.exceptions)


class GradeRoutes(Protocol):
    """Lists the ways in which a dataset's rows are graded. Asks no network."""

    def __call__(self, dataset: str, source: Path | None) -> Sequence[GradeRoute] | None:
        """Return the routes of all rows, by project; None where the files are not here and nothing is known without them.

        Args:
            dataset: name of the public dataset.
            source: folder with its files; None where they are not on this machine.

        Raises:
            SourceUnreadable: the files hold no row that can be read.
        """
        ...
