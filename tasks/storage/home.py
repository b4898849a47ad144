"""The home: one folder for all data of an installation, `$PARLEY_HOME` or `./.parley`."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import ConfigError, UsageError

HOME_VARIABLE = "PARLEY_HOME"


@dataclass(frozen=True)
class Home:
    """The folders of one home. Nothing is created before something is written."""

    path: Path

    @property
    def lake(self) -> Path:
        """Folder of the Parquet tables."""
        return self.path / "lake"

    @property
    def docs(self) -> Path:
        """Folder of the quality checks' pages."""
        return self.path / "docs"

    @property
    def logs(self) -> Path:
        """Folder of the servers' and workers' logs."""
        return self.path / "logs"

    @property
    def warehouse(self) -> Path:
        """The published DuckDB file."""
        return self.path / "warehouse.duckdb"

    @classmethod
    def at(cls, path: str | Path) -> "Home":
        """The home in this folder."""
        return cls(Path(path))

    def journal(self, run_id: str) -> Path:
        """Folder of one run's journal segments."""
        return self.path / "journal" / run_id

    def tries(self, run_id: str) -> Path:
        """Where the shards under way are marked."""
        return self.path / "tries" / run_id

    @contextmanager
    def run_lock(self, run_id: str) -> Iterator[None]:
        """Hold a run, so that no second driver works on it. The system frees it when the holder dies.

        Raises:
            UsageError: another process is at work on this run.
        """
        from filelock import FileLock, Timeout

        folder = self.path / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"run-{run_id}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(
                f"run {run_id} is being worked on by another process on this home ({self.path}). Wait for it or end it, then type"
                " the same command: it goes on where that one stopped"
            ) from None
        try:
            yield
        finally:
            lock.release()


def find_home(stated: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Home:
    """The home: `$PARLEY_HOME` first, then what a configuration states, then `./.parley`.

    Raises:
        ConfigError: the path exists and is not a folder.
    """
    path = Path(environ.get(HOME_VARIABLE) or stated or ".parley").expanduser().absolute()
    if path.exists() and not path.is_dir():
        raise ConfigError(
            f"home {path} is a file, not a folder. Set {HOME_VARIABLE} to a folder or to a path that does not exist yet"
        )
    return Home(path)
