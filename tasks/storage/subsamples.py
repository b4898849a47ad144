"""Stored subsamples: the share of its tasks that a budget allowed for a run.

They are stored because the estimates, and with them the share, change with every run.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class StoredShare:
    """Share of tasks of one run.

    Attributes:
        run: digest of the run, its number of tasks, and the budget.
        night: digest of the settings of all runs that share the budget, and the budget.
        share: share of the run's tasks, 0 to 1.
    """

    run: str
    night: str
    share: float


class StoredShares:
    """Shares in a file of JSON lines, to which any process may append.

    The first share of a run counts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._of_run: dict[str, float] = {}
        self._of_night: dict[str, float] = {}
        if path.exists():
            self._load()

    def _load(self) -> None:
        for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = StoredShare(**json.loads(line))
            except (ValueError, TypeError):
                continue  # torn by a kill before the run began
            self._of_run.setdefault(row.run, row.share)
            self._of_night[row.night] = row.share

    def of_run(self, run: str) -> float | None:
        """Return the stored share of a run; None if there is none."""
        return self._of_run.get(run)

    def of_night(self, night: str) -> float | None:
        """Return the latest share of runs with these settings; None if there is none."""
        return self._of_night.get(night)

    def add(self, share: StoredShare) -> None:
        """Append a share to the file.

        Raises:
            OSError: the share could not be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, f"{json.dumps(asdict(share))}\n".encode())
        finally:
            os.close(descriptor)
