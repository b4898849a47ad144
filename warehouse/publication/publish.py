"""Publication: a new warehouse file is built and checked, and replaces the old one atomically."""

import logging
import os
import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from schemas.errors import ParleyError, UnknownName, UsageError
from warehouse.agreement import refresh_agreement
from warehouse.comparison.decisions import refresh_night_decisions
from warehouse.comparison.tables import refresh_comparisons
from warehouse.connect import FILE_NAME, warehouse_path
from warehouse.intervals import register_intervals
from warehouse.lake import LakeMoved, Listing, flush, list_lake
from warehouse.marts import (
    Mart,
    MartSource,
    collect_marts,
    plan_marts,
    refresh_marts,
    store_scales,
)
from warehouse.publication import migrate
from warehouse.publication.copying import (
    append_cut_off_blocks,
    copy_file,
    drop_appended_blocks,
    prepared_path,
    unfinished,
)
from warehouse.publication.update import Update, Withheld, update_tables
from warehouse.publication.validate import validate

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LOG = logging.getLogger(__name__)

_ATTEMPTS = 3
_MEMORY_BYTES = 3 * 2**30
_MEMORY_SHARE = 0.5


@dataclass(frozen=True)
class PublishReport:
    """Counts of one publication."""

    path: Path
    n_runs_loaded: int
    """Number of published runs whose rows or marts were made again."""
    n_runs_published: int
    """Number of all runs whose results the file shows."""
    n_runs_withheld: int
    """Number of runs of which the file has only the row in `runs` and the quality checks."""
    n_files: int
    """Number of Parquet files read."""
    n_rows: int
    """Number of rows read from the Parquet files."""
    seconds: float
    replaced: bool
    """True if a new file replaced the old one; False if the old one was already up to date."""
    rebuilt_because: str | None = None
    """Reason why the file was rebuilt from the lake. None: the old file was continued."""
    warnings: tuple[str, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    """Finished runs that this publication withheld: their files are damaged, changed or
    inconsistent."""


def publish(
    home: Path,
    *,
    lake: Path | None = None,
    run_ids: Sequence[str] | None = None,
    marts: Sequence[MartSource] = (),
    directions: Mapping[str, str] = MappingProxyType({}),
    judged: Collection[str] = (),
    shares: Mapping[str, bool] = MappingProxyType({}),
    rebuild: bool = False,
    lock_timeout_s: float = 600.0,
) -> PublishReport:
    """Bring `<home>/warehouse.duckdb` up to date with `<home>/lake`.

    Only changes since the last publication are read. Readers keep the file that they opened, and
    read the new one when they open it again. A publication that ends early, even by SIGKILL, leaves
    the old file as it was. A run whose files are damaged, inconsistent or changed since their
    checks is withheld with its reason. The other runs are published.

    Args:
        lake: folder of the tables, or their path in a store, if it is not in the home.
        run_ids: runs to bring up to date. None: all, and runs that the lake no longer has are
            removed. A file that has to be rebuilt always gets all runs.
        marts: SQL files and wide tables of the benchmarks, each after those that it reads.
        directions: metric -> which direction is better.
        judged: metrics that read judgements.
        shares: metric -> whether it is a share in [0, 1]. A metric without an entry is one.
        rebuild: start from an empty file.
        lock_timeout_s: seconds to wait for another publication.

    Raises:
        UsageError: the home has no lake.
        UnknownName: the lake has no such run.
        SchemaMismatch: all Parquet files have another schema version. The message names one.
        ParleyError: another publication holds the lock for too long, a mart fails, or the new file
            is inconsistent.
    """
    lake = home / "lake" if lake is None else lake
    if not lake.is_dir():
        raise UsageError(
            f"nothing to publish: {lake} does not exist. `parley run` makes it. PARLEY_HOME "
            "selects the home"
        )
    collected = collect_marts(marts)
    with _publish_lock(home, lock_timeout_s):
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                selected = None if run_ids is None else frozenset(run_ids)
                return _publish_locked(
                    home, lake, selected, collected, rebuild, directions, judged, shares
                )
            except LakeMoved as error:
                LOG.info(
                    "%s disappeared before it was read (attempt %d of %d)",
                    error,
                    attempt,
                    _ATTEMPTS,
                )
        raise ParleyError(
            f"{lake} kept changing during {_ATTEMPTS} attempts to publish. Publish again "
            "after its runs have finished"
        )


def prepare_tables(home: Path, marts: Sequence[MartSource] = ()) -> Path | None:
    """Make the file for a home's first publication: all tables, views and marts, without rows.

    Args:
        marts: see `publish`.

    Returns:
        The file. None if the home has a warehouse or such a file, or if it cannot be made: the
        publication raises the error.
    """
    import duckdb

    target = prepared_path(home)
    if warehouse_path(home).exists() or target.exists():
        return None
    with suppress(OSError, duckdb.Error, ParleyError), unfinished(target) as path:
        with duckdb.connect(str(path)) as connection:
            register_intervals(connection)
            migrate.create_tables(connection)
            connection.execute("begin")
            refresh_marts(connection, plan_marts(connection, collect_marts(marts)), (), ())
            connection.execute("commit")
            connection.execute("checkpoint")
        return target
    return None


@contextmanager
def _publish_lock(home: Path, timeout_s: float) -> Iterator[None]:
    from filelock import FileLock, Timeout

    path = home / "locks" / "publish.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(path).acquire(timeout=timeout_s)
    except Timeout:
        raise ParleyError(
            f"another process has been publishing on {home} for over {timeout_s:g} s (lock "
            f"{path}). Wait for it or stop it, then"
            " publish again: the lock is released when its holder exits"
        ) from None
    with held:
        yield


def _publish_locked(
    home: Path,
    lake: Path,
    selected: Collection[str] | None,
    marts: Sequence[Mart],
    rebuild: bool,
    directions: Mapping[str, str],
    judged: Collection[str],
    shares: Mapping[str, bool],
) -> PublishReport:
    started = time.monotonic()
    listing = list_lake(lake)
    _check_selected(listing, selected)
    _remove_leftovers(home, prepared=prepared_path(home))
    target = warehouse_path(home)
    try:
        connection, rebuilt_because = _open_next(home, rebuild)
    except BaseException:
        _remove_leftovers(home)
        raise
    continued = target.exists() and rebuilt_because is None
    try:
        connection.execute("set enable_progress_bar = false")
        connection.execute(f"set memory_limit = '{_memory_bytes()}B'")
        register_intervals(connection)
        connection.execute("begin")
        update = update_tables(connection, lake, listing, selected if continued else None)
        rescaled = store_scales(connection, shares)
        update.is_empty = update.is_empty and not rescaled
        update.touched |= rescaled
        plan = plan_marts(connection, marts)
        if continued and update.is_empty and plan.complete:
            connection.execute("rollback")
            return _report(connection, target, update, started, ())
        refresh_marts(connection, plan, update.touched, update.published)
        refresh_agreement(connection)
        refresh_night_decisions(connection)
        refresh_comparisons(connection, update.touched, directions, judged)
        validate(
            connection,
            plan.marts,
            update.touched if plan.complete else update.touched | update.published,
        )
        warnings = (
            *(
                f"run {withheld_run.run_id} is withheld: {withheld_run.reason}"
                for withheld_run in update.withheld
            ),
            *update.warnings,
        )
        connection.execute("commit")
        connection.execute("checkpoint")
        report = _report(
            connection,
            target,
            update,
            started,
            warnings,
            replaced=True,
            rebuilt_because=rebuilt_because,
        )
        connection.close()
        if continued:
            append_cut_off_blocks(target, _next_path(home))
        _replace(home)
    finally:
        connection.close()
        _remove_leftovers(home)
    for warning in report.warnings:
        LOG.warning("warehouse: %s", warning)
    return report


def _memory_bytes() -> int:
    """Return the memory that DuckDB may use before it writes temporary data to disk."""
    return int(
        min(_MEMORY_BYTES, _MEMORY_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    )


def _check_selected(listing: Listing, selected: Collection[str] | None) -> None:
    run_ids = {partition.last_key for partition in listing["runs"].values()}
    for run_id in sorted(set(selected or ()) - run_ids):
        raise UnknownName("run", run_id, sorted(run_ids)[:20], "`parley list runs` shows them")


def _next_path(home: Path) -> Path:
    return home / f"{FILE_NAME}.next"


def _remove_leftovers(home: Path, prepared: Path | None = None) -> None:
    """Remove files of a killed publication, and files made ahead other than `prepared`."""
    for path in home.glob(f"{FILE_NAME}.next*"):
        if path == prepared:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _open_next(home: Path, rebuild: bool) -> "tuple[DuckDBPyConnection, str | None]":
    """Return the new file, opened for writing.

    It is a copy of the old file, or a file without rows. Without rows, the reason is returned as
    well, if there is an old file.
    """
    import duckdb

    old = warehouse_path(home)
    reason = "a rebuild was requested" if rebuild else None
    if reason is None and (old.exists() or prepared_path(home).exists()):
        continued = _continue(home)
        if not isinstance(continued, str):
            return continued, None
        if old.exists():
            reason = continued
            LOG.warning("Rebuilding %s from the lake: %s", old, reason)
        _remove_leftovers(home)
    connection = duckdb.connect(str(_next_path(home)))
    try:
        migrate.create_tables(connection)
    except duckdb.Error:
        connection.close()
        raise
    return connection, reason


def _continue(home: Path) -> "DuckDBPyConnection | str":
    """Open the prepared file or a copy of the old file, or return why it cannot be continued."""
    import duckdb

    new, prepared = _next_path(home), prepared_path(home)
    if _write_ahead_log(home).exists():
        return "another program wrote to it"
    try:
        prepared.rename(new)
    except FileNotFoundError:
        if not warehouse_path(home).exists():
            return "another command removed the prepared file"
        copy_file(warehouse_path(home), new)
    drop_appended_blocks(new)
    try:
        connection = duckdb.connect(str(new))
        version = migrate.stored_version(connection)
    except duckdb.Error as error:
        return f"it cannot be read ({str(error).splitlines()[0]})"
    if version == migrate.current_version():
        return connection
    connection.close()
    return (
        f"it has version {version}, and this version of Parley writes {migrate.current_version()}"
    )


def _write_ahead_log(home: Path) -> Path:
    return home / f"{FILE_NAME}.wal"


def _report(
    connection: "DuckDBPyConnection",
    path: Path,
    update: Update,
    started: float,
    warnings: tuple[str, ...],
    *,
    replaced: bool = False,
    rebuilt_because: str | None = None,
) -> PublishReport:
    [(n_withheld,)] = connection.execute(
        "select count(*) from runs where status <> 'finished'"
    ).fetchall()
    return PublishReport(
        path=path,
        n_runs_loaded=len(update.touched & update.published),
        n_runs_published=len(update.published),
        n_runs_withheld=n_withheld,
        n_files=update.n_files,
        n_rows=update.n_rows,
        seconds=time.monotonic() - started,
        replaced=replaced,
        rebuilt_because=rebuilt_because,
        warnings=warnings,
        withheld=tuple(update.withheld),
    )


def _replace(home: Path) -> None:
    """Replace the old file by the new one. The new one is on disk before the name changes."""
    flush(_next_path(home))
    _write_ahead_log(home).unlink(missing_ok=True)
    os.replace(_next_path(home), warehouse_path(home))
    flush(home)
