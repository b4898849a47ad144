"""Update of the warehouse's tables: changed partitions of the lake are loaded again.

Staging states the rows and columns that the warehouse takes from a lake table.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import SchemaMismatch
from schemas.grouping import grouped
from schemas.lake.tables import LOADED
from warehouse import sql_files
from warehouse.connect import identifier
from warehouse.lake import Part, Partition, read_part, stated_version

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection


_TARGETS = {
    "episodes": ("episode_rows", "turn_rows"),
    "scores": ("score_rows",),
    "test_verdicts": ("test_verdict_rows",),
}
"""Lake table -> its tables in the warehouse, if a view has the name of the lake table."""

ONE_ROW_PER = {
    "checkpoints": "digest order by found_at, path",
    # Stagings of one version, such as with other `--templates`, share their unchanged rows.
    "dialogs": "benchmark, dataset_version, dialog_id, row_digest order by problem_id, part",
    "problems": (
        "benchmark, dataset_version, problem_id, row_digest order by source_file, source_line, part"
    ),
    "quarantine": "benchmark, dataset_version, source_file, source_line, reason, detail, excerpt",
    # A killed process can leave a row twice. The row with the audit's costs counts.
    "forgery_audit": (
        "run_id, episode_id, turn, instruction_id order by n_runs desc, outcome, verdict_id"
    ),
    "judge_drift_answers": (
        "night_id, judge, rubric, rubric_version, case_number, dimension order by asked_at"
    ),
    "judge_verdicts": "run_id, episode_id, turn, rubric, dimension, judge"
    ' order by unscored_reason is not null, judgement_id, "value", label',
    "models": "model, revision, weights_digest, chat_template"
    " order by usd_per_million_input nulls last, usd_per_million_output nulls last, "
    "usd_per_hour nulls last",
    "nights": "night_id order by finished_at desc, n_published desc",
    "run_episodes": "run_id, episode_id order by problem_id",
    "runs": "run_id order by finished_at desc, started_at desc",
    # The newest version of the metric counts.
    "score_rows": "run_id, episode_id, turn, instruction_id, metric"
    ' order by metric_version desc, "value" is null, "value", unscored_reason',
    # A row with a model's outcome replaces a row with a fault of the infrastructure.
    "test_verdict_rows": (
        "run_id, episode_id, turn, instruction_id order by outcome = 'infra', verdict_id nulls "
        "last, outcome"
    ),
}
"""Table -> its key, and the order that decides among rows with equal keys. Other tables take every
row."""


def targets(table: str) -> tuple[str, ...]:
    """Return the tables of the warehouse that hold a lake table."""
    return _TARGETS.get(table, (table,))


def selection(table: str, target: str) -> str:
    """Return the query of the rows that the table `target` takes from `incoming`.

    The query comes from the target's file in sql/staging, or from the lake table's schema.
    """
    if target in sql_files.names("staging"):
        return sql_files.load("staging", target).statement
    columns = ", ".join(identifier(name) for name in LOADED[table].schema.names)
    key = ONE_ROW_PER.get(target)
    return f"select {columns} from incoming" + (
        f" qualify row_number() over (partition by {key}) = 1" if key else ""
    )


BATCH_BYTES = 64 * 2**20
"""Arrow memory that is gathered before one insert."""


@dataclass(frozen=True)
class Damage:
    """A partition that was left out because one of its parts is unreadable."""

    partition: Partition
    reason: str
    is_other_version: bool
    """True if the part is complete, and another schema version wrote it."""


@dataclass(frozen=True)
class Synced:
    """Counts of one table's update."""

    changed: tuple[Partition, ...] = ()
    """Partitions that were loaded again or removed. A removed one has no parts."""
    n_files: int = 0
    n_rows: int = 0
    """Number of rows read from the `n_files` files."""
    n_repeated: int = 0
    """Number of rows left out because a newer part repeats them."""
    damaged: tuple[Damage, ...] = ()
    """Partitions left out because a part is unreadable. The table has none of their rows, and the
    next publication tries again.
    """


def sync_table(
    connection: "DuckDBPyConnection",
    lake: Path,
    table: str,
    wanted: Mapping[str, Partition],
    in_scope: Callable[[Partition], bool] = lambda _: True,
) -> Synced:
    """Bring one table's rows up to date with the wanted partitions.

    May commit the open transaction, and then opens a new one.

    Args:
        wanted: folder -> partition.
        in_scope: partitions that may change. Others stay as they are.

    Raises:
        LakeMoved: a part disappeared since it was listed.
    """
    stale, gone = out_of_date(connection, table, wanted, in_scope)
    loaded = loaded_parts(connection, table)
    unload(connection, [p for p in (*stale, *gone) if p.folder in loaded])
    n_files = n_rows = n_inserted = 0
    damaged: list[Damage] = []
    for batch in _batches(lake, stale, damaged):
        if n_files:
            _free_memory(connection)
        n_inserted += _insert(connection, table, [rows for _, _, rows in batch])
        _note_loaded(connection, batch)
        n_files += len(batch)
        n_rows += sum(rows.num_rows for _, _, rows in batch)
    return Synced((*stale, *gone), n_files, n_rows, n_rows - n_inserted, tuple(damaged))


def out_of_date(
    connection: "DuckDBPyConnection",
    table: str,
    wanted: Mapping[str, Partition],
    in_scope: Callable[[Partition], bool],
) -> tuple[tuple[Partition, ...], tuple[Partition, ...]]:
    """Return the partitions in scope to load (again), and those to remove."""
    loaded = loaded_parts(connection, table)
    stale = tuple(p for p in wanted.values() if in_scope(p) and loaded.get(p.folder) != p.parts)
    gone = tuple(
        Partition(table, folder)
        for folder in loaded
        if folder not in wanted and in_scope(Partition(table, folder))
    )
    return stale, gone


def loaded_parts(connection: "DuckDBPyConnection", table: str) -> dict[str, tuple[Part, ...]]:
    """Return folder -> parts of the lake that a table's rows come from."""
    rows = connection.execute(
        (
            "select folder, part, size, mtime_ns from _loaded_parts where table_name = ? order "
            "by folder, part"
        ),
        [table],
    ).fetchall()
    parts = grouped((folder, Part(*part)) for folder, *part in rows)
    return {folder: tuple(of_folder) for folder, of_folder in parts.items()}


def unload(connection: "DuckDBPyConnection", partitions: Sequence[Partition]) -> None:
    """Remove the rows of some partitions of one table."""
    if not partitions:
        return
    table = partitions[0].table
    columns = tuple(partitions[0].keys)
    if "run_id" in columns:
        columns = ("run_id",)
    names = ", ".join(columns)
    places = ", ".join("?" for _ in columns)
    for target in targets(table):
        connection.executemany(
            f"delete from {identifier(target)} where ({names}) = ({places})",
            [[p.keys[c] for c in columns] for p in partitions],
        )
    connection.executemany(
        "delete from _loaded_parts where table_name = ? and folder = ?",
        [[table, p.folder] for p in partitions],
    )


Batch = list[tuple[Partition, Part, "pa.Table"]]


def _batches(lake: Path, partitions: Iterable[Partition], damaged: list[Damage]) -> Iterator[Batch]:
    """Yield batches of parts with their rows.

    A partition is not divided, since staging chooses among the rows of one partition. A partition
    with an unreadable part is left out, and added to `damaged`.
    """
    batch: Batch = []
    for partition in partitions:
        try:
            batch += [
                (partition, part, read_part(lake, partition, part)) for part in partition.parts
            ]
        except SchemaMismatch as error:
            folder, version = lake / partition.folder, str(LOADED[partition.table].version).encode()
            stated = {stated_version(partition.table, folder / p.name) for p in partition.parts}
            damaged.append(Damage(partition, str(error), not stated <= {version, None}))
        if sum(rows.nbytes for _, _, rows in batch) >= BATCH_BYTES:
            yield batch
            batch = []
    if batch:
        yield batch


def _insert(connection: "DuckDBPyConnection", table: str, pieces: Sequence["pa.Table"]) -> int:
    """Insert rows as the staging SQL selects them. Returns how many the first target received."""
    import pyarrow as pa

    connection.register("incoming", pa.concat_tables(pieces))
    try:
        counts = [
            connection.execute(
                f"insert into {identifier(name)} by name\n{selection(table, name)}"
            ).fetchall()
            for name in targets(table)
        ]
    finally:
        connection.unregister("incoming")
    return int(counts[0][0][0])


def _free_memory(connection: "DuckDBPyConnection") -> None:
    """Commit, so that DuckDB frees the memory of inserted rows.

    DuckDB holds an insert's Arrow data until its transaction ends, and a rebuild inserts every run.
    """
    connection.execute("commit")
    connection.execute("begin")


def _note_loaded(connection: "DuckDBPyConnection", batch: Batch) -> None:
    noted = [
        (partition.table, partition.folder, part.name, part.size, part.mtime_ns, rows.num_rows)
        for partition, part, rows in batch
    ]
    connection.execute(
        "insert into _loaded_parts (table_name, folder, part, size, mtime_ns, n_rows)"
        " select unnest(?::varchar[]), unnest(?::varchar[]), unnest(?::varchar[]), "
        "unnest(?::bigint[]), unnest(?::bigint[]),"
        " unnest(?::bigint[])",
        [list(column) for column in zip(*noted, strict=True)],
    )
