"""The home: one folder for all data of an installation, `$PARLEY_HOME` or `./.parley`.

The lake may lie elsewhere: `$PARLEY_LAKE` is a folder, or the URL of an object store. In a store the journal, the judgements and
the marks of shards lie beside the tables, so that workers need no folder that all of them see.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from schemas.run import RunSpec

HOME_VARIABLE = "PARLEY_HOME"
LAKE_VARIABLE = "PARLEY_LAKE"
_LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Home:
    """The folders of one home. Nothing is created before something is written."""

    path: Path
    lake_at: str | None = None
    """Folder or URL of the lake, where it is not in the home."""

    @property
    def lake(self) -> Path:
        """Folder of the Parquet tables, or their place in a store.

        Raises:
            ConfigError: a URL that cannot hold a lake, or whose package is missing.
            ServerUnavailable: the store does not answer.
        """
        if self.lake_at is None:
            return self.path / "lake"
        if not self.is_store:
            return Path(self.lake_at).expanduser().absolute()
        from warehouse.object_path import object_store

        return object_store(self.lake_at)

    @property
    def is_store(self) -> bool:
        """Whether the lake lies in an object store."""
        return self.lake_at is not None and "://" in self.lake_at

    @property
    def _met_by_all(self) -> Path:
        """Where driver and workers meet."""
        return self.lake if self.is_store else self.path

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

    @property
    def file_digests(self) -> Path:
        """Digests of large files that were read before."""
        return self.path / "file_digests.jsonl"

    @property
    def subsamples(self) -> Path:
        """Shares of tasks that budgets left runs."""
        return self.path / "subsamples.jsonl"

    @property
    def served_models(self) -> Path:
        """Folder of the facts that endpoints tell of the models that they serve."""
        return self.path / "served_models"

    @property
    def batches(self) -> Path:
        """What batches of requests are under way at endpoints."""
        return self.path / "batches"

    @property
    def trees(self) -> Path:
        """Folder of what agents worked on, by content."""
        return self.path / "trees"

    @property
    def environments(self) -> Path:
        """Folder of the environments of packages that repositories' programs run with."""
        return self.path / "environments"

    @property
    def images(self) -> Path:
        """Folder of the records of Docker images that Parley pulled."""
        return self.path / "images"

    @property
    def checkouts(self) -> Path:
        """Which trees the commits of repositories have."""
        return self.path / "checkouts"

    @classmethod
    def at(cls, path: str | Path, lake_at: str | None = None) -> "Home":
        """The home in this folder.

        Args:
            lake_at: folder or URL of its lake; None takes `$PARLEY_LAKE`, else the folder `lake` in it.
        """
        return cls(Path(path), lake_at or os.environ.get(LAKE_VARIABLE) or None)

    def journal(self, run_id: str) -> Path:
        """Folder of one run's journal segments."""
        return self._met_by_all / "journal" / run_id

    def judgements(self, run_id: str) -> Path:
        """Folder of one run's judgements that are in no table yet."""
        return self._met_by_all / "judgements" / run_id

    def sends(self, run_id: str) -> Path:
        """Folder of what counts one run's requests, while an invocation works on it."""
        return self._met_by_all / "sends" / run_id

    def talk_answers(self, spec: "RunSpec") -> Path:
        """Folder of the answers that memories of talks are built of, for the run's agent and model."""
        from schemas.content_id import content_id  # pydantic is too slow to load for --help

        return (
            self._met_by_all
            / "talk_answers"
            / content_id([spec.agent, spec.subject, spec.sampling])
        )

    def tries(self, run_id: str) -> Path:
        """Where the shards under way are marked."""
        return self._met_by_all / "tries" / run_id

    @property
    def builds(self) -> Path:
        """Folder of the answers and verdicts that datasets are made of."""
        return self.path / "builds"

    def build(self, build_id: str) -> Path:
        """Folder of what one build was told."""
        return self.builds / build_id

    def run_lock(self, run_id: str) -> AbstractContextManager[None]:
        """Hold a run, so that no second driver works on it. The system frees it when the holder dies.

        Raises:
            UsageError: another process is at work on this run.
        """
        return self._work_lock("run", run_id)

    @contextmanager
    def awaited_run_lock(self, run_id: str, wait: Callable[[], None]) -> Iterator[None]:
        """Hold a run as `run_lock` does, once its other driver has let it go or died.

        Args:
            wait: called each half second while another process is at work on the run; what it raises ends the waiting.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self._lock_file(f"run-{run_id}"))
        while True:
            try:
                lock.acquire(timeout=_LOOK_EVERY_S)
                break
            except Timeout:
                wait()
        try:
            yield
        finally:
            lock.release()

    def build_lock(self, build_id: str) -> AbstractContextManager[None]:
        """Hold a build as `run_lock` holds a run."""
        return self._work_lock("build", build_id)

    def _work_lock(self, kind: str, name: str) -> AbstractContextManager[None]:
        return self.lock(
            f"{kind}-{name}",
            f"{kind} {name} is being worked on by another process on this home ({self.path}). Wait for it or end it, then type"
            " the same command: it goes on where that one stopped",
        )

    @contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """Hold a lock of this home, once its holder has let it go or died. A signal ends the waiting."""
        from filelock import FileLock

        with FileLock(self._lock_file(name)).acquire(poll_interval=0.2):
            yield

    def _lock_file(self, name: str) -> Path:
        folder = self.path / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.lock"

    @contextmanager
    def lock(self, name: str, taken: str) -> Iterator[None]:
        """Hold a lock of this home.

        Args:
            taken: what to say where another process holds it.

        Raises:
            UsageError: another process holds it.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self._lock_file(name))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(taken) from None
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
    return Home(path, environ.get(LAKE_VARIABLE) or None)
