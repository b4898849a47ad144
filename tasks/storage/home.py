"""Home: the folder for all data of an installation, `$PARLEY_HOME` or `./.parley`.

The lake may be elsewhere: `$PARLEY_LAKE` is a folder, or the URL of an object store. A store also
contains the journal, the judgements and the leases of shards, so workers need no shared folder.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import ConfigError, DiskFull, UsageError

if TYPE_CHECKING:
    from schemas.run import RunSpec


HOME_VARIABLE = "PARLEY_HOME"
LAKE_VARIABLE = "PARLEY_LAKE"
_LOOK_EVERY_S = 0.5


class _Below:
    """Attribute of a home: a file or folder of its folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, home: "Home", owner: type["Home"] | None = None) -> Path:
        return home.path / self._name


@dataclass(frozen=True)
class Home:
    """Paths of one home. Folders are created with their first file."""

    path: Path
    lake_at: str | None = None
    """Folder or URL of the lake; None if it is in the home."""

    docs = _Below("docs")
    """Folder of the quality checks' HTML pages."""
    logs = _Below("logs")
    """Folder of the servers' and workers' logs."""
    warehouse = _Below("warehouse.duckdb")
    """DuckDB file of the published warehouse."""
    file_digests = _Below("file_digests.jsonl")
    """File with the digests of large files."""
    subsamples = _Below("subsamples.jsonl")
    """File with the share of each run's tasks that its budget allowed."""
    served_models = _Below("served_models")
    """Folder of the facts that endpoints report about their models."""
    batches = _Below("batches")
    """Folder of the records of batches in flight at endpoints."""
    trees = _Below("trees")
    """Folder of the content-addressed store of agents' workspaces."""
    environments = _Below("environments")
    """Folder of the Python environments of repositories' programs."""
    images = _Below("images")
    """Folder of the records of Docker images that Parley pulled."""
    checkouts = _Below("checkouts")
    """Folder of the records of commits and their trees."""
    builds = _Below("builds")
    """Folder of the answers and verdicts of dataset builds."""

    @property
    def lake(self) -> Path:
        """Folder of the Parquet tables, or their path in an object store.

        Raises:
            ConfigError: the URL cannot be used for a lake, or the package for it is missing.
            ServerUnavailable: the object store does not answer.
        """
        if self.lake_at is None:
            return self.path / "lake"
        if not self.is_store:
            return Path(self.lake_at).expanduser().absolute()
        from warehouse.object_path import object_store

        return object_store(self.lake_at)

    @property
    def is_store(self) -> bool:
        """True if the lake is in an object store."""
        return self.lake_at is not None and "://" in self.lake_at

    @property
    def _shared(self) -> Path:
        """Folder, or path in an object store, that driver and workers share."""
        return self.lake if self.is_store else self.path

    @classmethod
    def at(cls, path: str | Path, lake_at: str | None = None) -> "Home":
        """Return the home in a folder.

        Args:
            path: folder of the home.
            lake_at: folder or URL of the lake. None: `$PARLEY_LAKE`, or else the home's folder
                `lake`.
        """
        return cls(Path(path), lake_at or os.environ.get(LAKE_VARIABLE) or None)

    def journal(self, run_id: str) -> Path:
        """Return the folder of one run's journal segments."""
        return self._shared / "journal" / run_id

    def judgements(self, run_id: str) -> Path:
        """Return the folder of one run's judgements that are not in a table yet."""
        return self._shared / "judgements" / run_id

    def sends(self, run_id: str) -> Path:
        """Return the folder that counts one run's requests during an invocation."""
        return self._shared / "sends" / run_id

    def talk_answers(self, spec: "RunSpec") -> Path:
        """Return the folder of the answers for memories of long conversations.

        The folder depends on the run's agent, model and sampling.
        """
        from schemas.content_id import content_id  # pydantic is too slow to load for --help

        return self._shared / "talk_answers" / content_id([spec.agent, spec.subject, spec.sampling])

    def tries(self, run_id: str) -> Path:
        """Return the folder of the leases of one run's shards."""
        return self._shared / "tries" / run_id

    def build(self, build_id: str) -> Path:
        """Return the folder of the answers and verdicts of one build."""
        return self.builds / build_id

    def run_lock(self, run_id: str) -> AbstractContextManager[None]:
        """Lock a run, so that no second driver works on it.

        The operating system releases the lock if the process dies.

        Raises:
            UsageError: another process works on the run.
        """
        return self._work_lock("run", run_id)

    @contextmanager
    def awaited_run_lock(self, run_id: str, wait: Callable[[], None]) -> Iterator[None]:
        """Lock a run as `run_lock` does, but wait until another driver releases it or dies.

        Args:
            run_id: id of the run.
            wait: called each half second while another process works on the run. An exception ends
                the waiting.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self._lock_file(f"run-{run_id}"))
        while True:
            try:
                held = lock.acquire(timeout=_LOOK_EVERY_S)
                break
            except Timeout:
                wait()
        with held:
            yield

    def build_lock(self, build_id: str) -> AbstractContextManager[None]:
        """Lock a build as `run_lock` locks a run."""
        return self._work_lock("build", build_id)

    def _work_lock(self, kind: str, name: str) -> AbstractContextManager[None]:
        return self.lock(
            f"{kind}-{name}",
            f"another process works on {kind} {name} in this home ({self.path}). Wait for it or "
            "end it, then type the same command to resume",
        )

    @contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """Wait for a lock of this home and hold it during the block. A signal ends the waiting."""
        from filelock import FileLock

        with FileLock(self._lock_file(name)).acquire(poll_interval=0.2):
            yield

    def _lock_file(self, name: str) -> Path:
        folder = self.path / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.lock"

    def lock(self, name: str, message: str) -> AbstractContextManager[None]:
        """Hold a lock of this home during the block. See `hold_lock`."""
        return hold_lock(self._lock_file(name), message)


@contextmanager
def hold_lock(file: Path, message: str) -> Iterator[None]:
    """Hold a lock during the block.

    Args:
        file: file of the lock.
        message: text of the error.

    Raises:
        UsageError: another process holds the lock.
    """
    from filelock import FileLock, Timeout

    try:
        held = FileLock(file).acquire(timeout=0)
    except Timeout:
        raise UsageError(message) from None
    with held:
        yield


def find_home(
    configured: str | Path | None = None, environ: Mapping[str, str] = os.environ
) -> Home:
    """Return the home: `$PARLEY_HOME`, or else the configuration's, or else `./.parley`.

    Raises:
        ConfigError: the path exists and is not a folder.
    """
    path = Path(environ.get(HOME_VARIABLE) or configured or ".parley").expanduser().absolute()
    if path.exists() and not path.is_dir():
        raise ConfigError(
            f"home {path} is a file, not a folder. Set {HOME_VARIABLE} to a folder, or to a path "
            "that does not exist yet"
        )
    return Home(path, environ.get(LAKE_VARIABLE) or None)


START_BYTES = 16 * 2**20
"""Minimum free space of an invocation: Prefect's database, logs, and some shards."""
_FULL_BYTES = 256 * 2**10
"""Free space below which an unexplained fault is attributed to the disk."""
_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_MESSAGES = ("no space left on device", "database or disk is full", "disk quota exceeded")


def free_bytes(path: Path) -> int:
    """Return the free space for this user on the disk of `path`, which need not exist yet."""
    while not path.exists() and path != path.parent:
        path = path.parent
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def disk_full(what: str, path: Path, needed: int | None = None) -> DiskFull:
    """Return the error for a file that could not be written.

    Args:
        what: description of the file's content.
        path: file or folder.
        needed: size in bytes; None if unknown.
    """
    need = f", about {_size(needed)} needed" if needed is not None else ""
    return DiskFull(
        f"the disk is full: {what} could not be written to {path} ({_size(free_bytes(path))} free"
        f"{need}). No finished work is lost. Free space at {path}, then type the same command "
        "again to resume"
    )


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:.1f} MB" if n_bytes >= 2**20 else f"{-(-n_bytes // 2**10)} kB"


def is_full(error: BaseException) -> bool:
    """Return True if an error or one of its causes reports a full disk.

    DuckDB and SQLite report it only in the message.
    """
    return any(
        isinstance(cause, DiskFull)
        or (isinstance(cause, OSError) and cause.errno in _ERRNOS)
        or any(message in str(cause).lower() for message in _MESSAGES)
        for cause in _causes(error)
    )


def named_before(error: BaseException) -> DiskFull | None:
    """Return the DiskFull error among an error and its causes; None if there is none."""
    return next((cause for cause in _causes(error) if isinstance(cause, DiskFull)), None)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


@contextmanager
def naming_full_disk(what: str, path: Path, needed: int | None = None) -> Iterator[None]:
    """Raise DiskFull if an error in the block reports a full disk. Other errors pass unchanged.

    Args:
        what: description of the content that the block writes.
        path: file or folder.
        needed: size in bytes; None if unknown.
    """
    try:
        yield
    except DiskFull:
        raise
    except Exception as error:  # any kind: libraries report a full disk by their own errors
        named = named_before(error)
        if named is not None:
            raise DiskFull(str(named)) from error
        if is_full(error):
            raise disk_full(what, path, needed) from error
        raise


def require_room(home: Path, needed: int = START_BYTES) -> None:
    """Check the free space before an invocation starts.

    Raises:
        DiskFull: less than `needed` bytes are free.
    """
    if free_bytes(home) < needed:
        raise disk_full("a run's data", home, needed)


def has_no_room(home: Path) -> bool:
    """Return True if so little space is left that writing to the disk fails."""
    return free_bytes(home) < _FULL_BYTES
