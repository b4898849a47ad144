"""Listing and reading of the lake: `lake/<table>/<key>=<quoted value>/.../part-<name>.parquet`.

When a run finishes, its record gets a seal: a digest over names and contents of its files, per
table. A publication compares the files with the seal, and withholds a run if a file was changed,
damaged, added or removed since then. So only the very files that passed the quality checks are
published.
"""

import hashlib
import os
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from schemas.content_id import ID_LENGTH
from schemas.errors import SchemaMismatch
from schemas.lake.records import RESULT_TABLES, SEAL_PREFIX
from schemas.lake.tables import TABLES
from warehouse.object_path import ObjectPath

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


_PIECE_ROWS = 256
_COLUMN_OF_FOLDER = {"run": "run_id", "dataset": "dataset_version", "night": "night_id"}
REPLACED_IN_PLACE = frozenset(
    {
        "runs",
        "run_episodes",
        "quality_checks",
        "models",
        "nights",
        "checkpoints",
        "ratings",
        "comparison_rules",
        "decisions",
        "releases",
    }
    | {"served_hours", "serving", "stage_times", "failed_runs"}
)
"""Tables whose parts may change under their name. In other tables a part's name identifies its
content."""


@dataclass(frozen=True)
class Part:
    """A Parquet file.

    `mtime_ns` is 0 if the name identifies the content. In an object store it is a number that
    differs whenever the content differs.
    """

    name: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Partition:
    """The folder of one run, dataset, model, night, family or rater in one table."""

    table: str
    folder: str
    """Path relative to the lake, with `/` as separator."""
    parts: tuple[Part, ...] = ()
    """Parts, sorted by name."""

    @property
    def keys(self) -> Mapping[str, str]:
        """Return column -> value, in the order of the table's `partition_by`."""
        pairs = (step.split("=", 1) for step in self.folder.split("/")[1:])
        return {_COLUMN_OF_FOLDER.get(key, key): unquote(value) for key, value in pairs}

    @property
    def last_key(self) -> str:
        """Return the value of the innermost key, such as the run or the dataset version."""
        return unquote(self.folder.rsplit("=", 1)[1])


class LakeMoved(Exception):
    """A part disappeared between listing and reading: list again."""


Listing = Mapping[str, Mapping[str, Partition]]
"""Table -> folder -> partition."""


def list_lake(lake: Path) -> Listing:
    """Return all partitions that have parts. Opens no file."""
    if isinstance(lake, ObjectPath):
        return _list_store(lake)
    return {table: {p.folder: p for p in _partitions(lake, table)} for table in TABLES}


def _partitions(lake: Path, table: str) -> Iterator[Partition]:
    folders = [table]
    for column in TABLES[table].partition_by:
        folders = [
            f"{folder}/{entry.name}"
            for folder in folders
            for entry in _entries(lake / folder)
            if entry.is_dir()
            and _COLUMN_OF_FOLDER.get(entry.name.split("=", 1)[0], entry.name.split("=", 1)[0])
            == column
        ]
    for folder in folders:
        parts = tuple(
            _part(table, entry) for entry in _entries(lake / folder) if _is_part(entry.name)
        )
        if parts:
            yield Partition(table, folder, parts)


def _list_store(lake: ObjectPath) -> Listing:
    parts_by_folder: dict[str, dict[str, list[Part]]] = {table: {} for table in TABLES}
    for path in lake.rglob("part-*.parquet"):
        folder = str(path.parent.relative_to(lake))
        table, *steps = folder.split("/")
        keys = [step.split("=", 1)[0] for step in steps]
        if table in TABLES and tuple(_COLUMN_OF_FOLDER.get(key, key) for key in keys) == tuple(
            TABLES[table].partition_by
        ):
            stat = path.stat()
            part = Part(path.name, stat.st_size, stat.st_ino if table in REPLACED_IN_PLACE else 0)
            parts_by_folder[table].setdefault(folder, []).append(part)
    by_name = {table: sorted(folders.items()) for table, folders in parts_by_folder.items()}
    return {
        table: {
            folder: Partition(table, folder, tuple(sorted(parts, key=lambda part: part.name)))
            for folder, parts in folders
        }
        for table, folders in by_name.items()
    }


def open_parquet(path: Path, *, page_checksum_verification: bool = False) -> "pq.ParquetFile":
    """Open a part, from a folder or a store."""
    import pyarrow.parquet as pq

    source = path.open("rb") if isinstance(path, ObjectPath) else path
    return pq.ParquetFile(source, page_checksum_verification=page_checksum_verification)


def read_schema(path: Path) -> "pa.Schema":
    """Return the schema of a part."""
    with open_parquet(path) as file:
        return file.schema_arrow


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_part(name: str) -> bool:
    return name.startswith("part-") and name.endswith(".parquet")


def _part(table: str, entry: os.DirEntry[str]) -> Part:
    try:
        status = entry.stat()
    except FileNotFoundError as error:
        raise LakeMoved(entry.path) from error
    return Part(entry.name, status.st_size, status.st_mtime_ns if table in REPLACED_IN_PLACE else 0)


def read_part(lake: Path, partition: Partition, part: Part) -> "pa.Table":
    """Return all rows of a part, with the part's name as the last column `part`.

    Raises:
        SchemaMismatch: another schema version wrote the file, it is not a Parquet file, or it has
            rows of another partition.
        LakeMoved: the file is gone.
    """
    import pyarrow as pa

    path = lake / partition.folder / part.name
    try:
        with _reading(partition.table, path) as file:
            rows = file.read().cast(TABLES[partition.table].schema)
    except FileNotFoundError as error:
        raise LakeMoved(str(path)) from error
    _check_keys(rows, partition, path)
    return rows.append_column("part", pa.repeat(part.name, rows.num_rows))


@dataclass(frozen=True)
class LakeRows:
    """Rows of a table, named by file and position. Another process can read them by these names."""

    table: str
    files: tuple[tuple[Path, "array[int] | None"], ...]
    """Parquet files, each with the ascending positions of its rows. None means all rows."""

    def pieces(self, schema: "pa.Schema | None" = None) -> "Iterator[pa.Table]":
        """Yield the rows, at most 256 at a time.

        Args:
            schema: Columns to read, which may leave out fields of nested columns. None: all.

        Raises:
            SchemaMismatch: a file was written by another schema version, or is no Parquet file.
            FileNotFoundError: a file was removed since it was listed.
        """
        import pyarrow as pa

        wanted = TABLES[self.table].schema if schema is None else schema
        for path, places in self.files:
            with _reading(self.table, path) as file:
                start = 0
                for batch in file.iter_batches(_PIECE_ROWS, columns=wanted.names):
                    rows = pa.Table.from_batches([batch]).select(wanted.names).cast(wanted)
                    after = start + len(batch)
                    if places is not None:
                        first, last = bisect_left(places, start), bisect_left(places, after)
                        rows = rows.take(
                            pa.array([at - start for at in places[first:last]], pa.int64())
                        )
                    start = after
                    yield rows

    def read(self, schema: "pa.Schema | None" = None) -> "pa.Table":
        """Return all the rows. Takes the argument and raises the errors of `pieces`."""
        import pyarrow as pa

        wanted = TABLES[self.table].schema if schema is None else schema
        return pa.concat_tables([wanted.empty_table(), *self.pieces(wanted)])


class RowFacts(Mapping[str, Mapping[str, object]]):
    """Facts about many rows, keyed by one of their columns.

    The facts stay an Arrow table until the first one is read, also in a process that receives them.
    """

    def __init__(self, rows: "pa.Table", key: str) -> None:
        self._rows, self._key = rows, key

    @cached_property
    def _by_key(self) -> dict[str, dict[str, object]]:
        return dict(
            zip(
                self._rows[self._key].to_pylist(),
                self._rows.drop_columns(self._key).to_pylist(),
                strict=True,
            )
        )

    def __getitem__(self, key: str) -> Mapping[str, object]:
        return self._by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return self._rows.num_rows

    def __reduce__(self) -> "tuple[type[RowFacts], tuple[pa.Table, str]]":
        return RowFacts, (self._rows, self._key)


@contextmanager
def _reading(table: str, path: Path) -> "Iterator[pq.ParquetFile]":
    """Open a Parquet file of a table. A failure names the file and the remedy."""
    import pyarrow as pa

    from schemas.lake.rows import check_version

    try:
        with open_parquet(path, page_checksum_verification=True) as file:
            check_version(table, file.schema_arrow, str(path))
            yield file
    except FileNotFoundError:
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        raise SchemaMismatch(
            f"{path} cannot be read as table {table!r}: {error}. Move it away; "
            "`parley run` with the same"
            " arguments writes it again"
        ) from error


def stated_version(table: str, path: Path) -> bytes | None:
    """Return the schema version that a part states, or None if it is no complete file of its table.

    `?`: the part states none.
    """
    import pyarrow as pa

    from schemas.lake.tables import NAME_KEY, VERSION_KEY

    try:
        metadata = read_schema(path).metadata or {}
    except (pa.ArrowException, ValueError, OSError):
        return None
    return metadata.get(VERSION_KEY, b"?") if metadata.get(NAME_KEY) == table.encode() else None


def flush(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_keys(rows: "pa.Table", partition: Partition, path: Path) -> None:
    for column, value in partition.keys.items():
        others = [other for other in rows[column].unique().to_pylist() if other != value]
        if others:
            raise SchemaMismatch(
                f"{path} holds rows of {column} {others[0]!r} in the folder of {value!r}. "
                "Move it to the folder of its rows"
            )


SEALED = (*RESULT_TABLES, "quality_checks")


def table_seal(folder: Path) -> str:
    """Return the digest of one table's parts of a run: 32 hex digits, also without parts.

    Raises:
        OSError: a part cannot be read.
    """
    digest = hashlib.sha256()
    for part in sorted(folder.glob("part-*.parquet")):
        with part.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{part.name} {content}\n".encode())
    return digest.hexdigest()[:ID_LENGTH]


def run_seal(folders: Mapping[str, Path]) -> dict[str, str]:
    """Return names and digests for a record's `state`.

    Args:
        folders: table -> folder of the run's parts.
    """
    return {SEAL_PREFIX + table: table_seal(folder) for table, folder in folders.items()}


def broken_seal(lake: Path, record: Partition) -> str | None:
    """Return a sentence with the tables that differ from the seal in a run's record.

    Args:
        record: the run's partition in `runs`.

    Returns:
        The sentence. None if no table differs, or there is no seal.
    """
    seal = _stored_seal(lake, record)
    below = record.folder.split("/", 1)[1]
    changed = [
        table for table, digest in seal.items() if table_seal(lake / table / below) != digest
    ]
    if not changed:
        return None
    folders = " and ".join(str(lake / table / below) for table in changed)
    return (
        f"files_unchanged: the files of {', '.join(changed)} changed after the quality "
        "checks. Put the checked files back, or"
        f" remove {folders} and run the same command again to make new ones"
    )


def _stored_seal(lake: Path, record: Partition) -> dict[str, str]:
    seal: dict[str, str] = {}
    for part in record.parts:
        with open_parquet(lake / record.folder / part.name) as file:
            if "state" not in file.schema_arrow.names:
                continue
            for pairs in file.read(columns=["state"])["state"].to_pylist():
                seal |= {
                    p["key"].removeprefix(SEAL_PREFIX): p["value"]
                    for p in pairs or ()
                    if p["key"].startswith(SEAL_PREFIX)
                }
    return seal
