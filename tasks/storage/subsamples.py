"""Remembers which share of its tasks a budget left a run, since estimates change with every run that is played."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class KeptShare:
    """One choice.

    Attributes:
        run: digest of the run, its number of tasks, and the budget.
        night: digest of the settings of all runs that were chosen for together, and the budget.
        share: 1.0 where all tasks fit.
    """

    run: str
    night: str
    share: float


class KeptShares:
    """The choices in a file of JSON lines, to which any process may add one at any time. The first one of a run counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._of_run: dict[str, float] = {}
        self._of_night: dict[str, float] = {}
        if path.exists():
            self._load()

    def _load(self) -> None:
        for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = KeptShare(**json.loads(line))
            except (ValueError, TypeError):
                continue  # torn by a kill before the run began
            self._of_run.setdefault(row.run, row.share)
            self._of_night[row.night] = row.share

    def of_run(self, run: str) -> float | None:
        """Return the share that was chosen for a run; None where none was."""
        return self._of_run.get(run)

    def of_night(self, night: str) -> float | None:
        """Return the share that was chosen last for runs of these settings."""
        return self._of_night.get(night)

    def keep(self, choice: KeptShare) -> None:
        """Add a choice.

        Raises:
            OSError: it could not be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, f"{json.dumps(asdict(choice))}\n".encode())
        finally:
            os.close(descriptor)
