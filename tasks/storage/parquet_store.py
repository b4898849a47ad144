"""Lake: Parquet parts, written completely or not at all.

A part is written to a temporary file and renamed, or uploaded to an object store in one request.
Its name is derived from its content, so writing it twice changes nothing. Layout:
`lake/<table>/<key>=<quoted value>/.../part-<name>.parquet`.

A night writes hundreds of parts, which each later night would list. So a finished run's small parts
are merged into one, which is written before the others are removed. A kill between the two leaves
duplicate rows, which all readers of these tables tolerate, and which the next merge drops.
"""

import os
import secrets
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from schemas.base import RunRow
from schemas.content_id import rows_id
from schemas.episode import StopReason
from schemas.errors import SchemaMismatch
from schemas.lake.records import RunRecord
from schemas.lake.rows import check_version, from_arrow, to_arrow
from schemas.lake.tables import TABLES
from tasks.storage.home import naming_full_disk
from warehouse.lake import flush, open_parquet
from warehouse.object_path import ObjectPath

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R")

_FOLDER_KEYS = {"run_id": "run", "dataset_version": "dataset", "night_id": "night"}
_TEMPORARY = ".writing-"
_LISTINGS = 5
_PIECE_ROWS = 256
_GROUP_BYTES = 2**20
"""Size of a row group if rows are written in pieces. Reading one row reads its whole group."""
_FEW_ROWS = 1000
"""Number of rows from which a part is compressed well.

Smaller parts come from shards, and the end of the run merges them. Weaker compression writes them
in half the processor time.
"""


def listing_again(read: Callable[[], R]) -> R:
    """Return the result of `read`, which lists parts and reads them.

    If another process merges parts meanwhile, `read` is called again.

    Raises:
        FileNotFoundError: parts were removed during each of five calls.
    """
    for _ in range(_LISTINGS - 1):
        with suppress(FileNotFoundError):
            return read()
    return read()


def run_keys(row: RunRow | RunRecord) -> dict[str, str]:
    """Return the columns by which the tables of runs are partitioned, with the row's values."""
    return {"benchmark": row.benchmark, "model": row.model, "run_id": row.run_id}


class Lake:
    """Parquet tables in a folder or an object store.

    Args:
        root: folder of the lake, or its path in an object store. It is created with the first part.
        fsync: flush each part to the disk before the rename. This protects against a power failure;
            a kill needs no such protection.
    """

    def __init__(self, root: Path, *, fsync: bool = False) -> None:
        self.root = root
        self.fsync = fsync

    def folder(self, table: str, **keys: str) -> Path:
        """Return the folder of a partition.

        Args:
            table: name of the table.
            keys: values of the first columns of `partition_by`, in order. Later columns may be left
                out.

        Raises:
            ValueError: the keys are not the first columns of `partition_by`.
        """
        wanted = TABLES[table].partition_by
        if tuple(keys) != wanted[: len(keys)]:
            raise ValueError(f"table {table} is partitioned by {wanted}, not by {tuple(keys)}")
        path = self.root / table
        for name, value in keys.items():
            path = path / f"{_FOLDER_KEYS.get(name, name)}={quote(value, safe='')}"
        return path

    def parts(self, table: str, **keys: str) -> list[Path]:
        """Return all parts in a partition and below it, sorted by name."""
        return sorted(self.folder(table, **keys).rglob("part-*.parquet"))

    def write_part(self, table: str, rows: Iterable[BaseModel], name: str, **keys: str) -> Path:
        """Write one part, which replaces a part of the same name. After an error, no file is left.

        Raises:
            DiskFull: the disk is full.
            OSError: the process may not write.
        """
        return self.write_arrow(table, to_arrow(table, rows), name, **keys)

    def write_arrow(self, table: str, rows: pa.Table, name: str, **keys: str) -> Path:
        """Write Arrow rows of exactly the table's schema as one part, as `write_part` does."""
        return self._write_part(table, lambda where: _write(rows, where), name, keys)

    def write_pieces(self, table: str, pieces: Iterable[pa.Table], name: str, **keys: str) -> Path:
        """Write rows of exactly the table's schema as one part, in row groups of about 1 MB.

        It raises the errors of `write_part`.

        Args:
            table: name of the table.
            pieces: rows in pieces. Only one row group is in memory.
            name: name of the part.
            keys: keys of the partition.
        """
        schema = TABLES[table].schema
        return self._write_part(
            table, lambda where: _write_pieces(pieces, schema, where), name, keys
        )

    def _write_part(
        self, table: str, write: Callable[[Any], None], name: str, keys: Mapping[str, str]
    ) -> Path:
        folder = self.folder(table, **keys)
        target = folder / f"part-{name}.parquet"
        with naming_full_disk(f"a part of the table {table!r}", folder):
            if isinstance(target, ObjectPath):
                buffer = pa.BufferOutputStream()
                write(buffer)
                target.write_bytes(memoryview(buffer.getvalue()))
                return target
            folder.mkdir(parents=True, exist_ok=True)
            temporary = folder / f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}"
            try:
                write(temporary)
                if self.fsync:
                    flush(temporary)
                os.replace(temporary, target)
                if self.fsync:
                    flush(folder)
            finally:
                temporary.unlink(missing_ok=True)
            return target

    def read_arrow(
        self, table: str, parts: Sequence[Path], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the rows of parts, in order.

        Args:
            table: table of the parts.
            parts: files to read.
            columns: columns to read; None for all.

        Raises:
            SchemaMismatch: a part has another schema version, or is incomplete.
            FileNotFoundError: a part was removed after it was listed.
        """
        schema, pieces = _schema(table, columns), list[pa.Table]()
        for part in parts:
            with _naming(part), self.open_part(table, part) as file:
                pieces.append(
                    _cast(file.read(columns=None if columns is None else list(columns)), schema)
                )
        return pa.concat_tables(pieces) if pieces else schema.empty_table()

    def read_pieces(self, table: str, parts: Sequence[Path]) -> Iterator[pa.Table]:
        """Yield the rows of parts, in order, some hundreds at a time.

        It raises the errors of `read_arrow`.
        """
        for part in parts:
            with _naming(part), self.open_part(table, part) as file:
                for batch in file.iter_batches(_PIECE_ROWS):
                    yield _cast(pa.Table.from_batches([batch]), TABLES[table].schema)

    def open_part(self, table: str, part: Path) -> pq.ParquetFile:
        """Open a part for reading. Raises the errors of `read_arrow`."""
        with _naming(part):
            file = open_parquet(part, page_checksum_verification=True)
            check_version(table, file.schema_arrow, str(part))
            return file

    def read(self, table: str, kind: type[M], /, **keys: str) -> list[M]:
        """Return the rows of a partition as models of this kind."""
        return from_arrow(
            listing_again(lambda: self.read_arrow(table, self.parts(table, **keys))), kind
        )

    def read_part(self, table: str, kind: type[M], part: Path) -> list[M]:
        """Return the rows of one part as models of this kind."""
        return from_arrow(self.read_arrow(table, [part]), kind)

    def is_whole(self, table: str, part: Path) -> bool:
        """Return True if a part has a footer of this schema version. Its rows are not read."""
        try:
            with open_parquet(part) as file:
                check_version(table, file.schema_arrow, str(part))
        except (pa.ArrowException, ValueError, OSError, SchemaMismatch):
            return False
        return True

    def keep_only(self, table: str, names: Collection[str], **keys: str) -> None:
        """Remove all parts of a partition except `names`, and temporary files of killed writers.

        The caller must hold the run's lock.
        """
        folder = self.folder(table, **keys)
        if not folder.is_dir():
            return
        keep = {f"part-{name}.parquet" for name in names}
        for path in folder.iterdir():
            if path.name.startswith(_TEMPORARY) or (
                path.suffix == ".parquet" and path.name not in keep
            ):
                path.unlink(missing_ok=True)

    def remove_leftovers(self, table: str, **keys: str) -> None:
        """Remove temporary files of killed writers from a partition. Object stores have none.

        The caller must hold the run's lock.
        """
        if isinstance(self.root, ObjectPath):
            return
        for path in self.folder(table, **keys).rglob(f"{_TEMPORARY}*"):
            path.unlink(missing_ok=True)


@contextmanager
def _naming(part: Path) -> Iterator[None]:
    """Convert read errors in the block to SchemaMismatch, with the part and the remedy."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        raise SchemaMismatch(
            f"{part} cannot be read as Parquet ({error}). Move it away and run again to recreate it"
        ) from error


def _schema(table: str, columns: Sequence[str] | None) -> pa.Schema:
    schema = TABLES[table].schema
    return (
        schema
        if columns is None
        else pa.schema([schema.field(name) for name in columns], metadata=schema.metadata)
    )


def _cast(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return rows if rows.schema.equals(schema) else rows.cast(schema)


def _write_pieces(pieces: Iterable[pa.Table], schema: pa.Schema, where: Any) -> None:
    with pq.ParquetWriter(where, schema, compression="zstd", write_page_checksum=True) as writer:
        waiting = list[pa.Table]()
        for piece in pieces:
            waiting.append(piece)
            if sum(each.nbytes for each in waiting) >= _GROUP_BYTES:
                writer.write_table(pa.concat_tables(waiting))
                waiting.clear()
        if waiting:
            writer.write_table(pa.concat_tables(waiting))


def _write(rows: pa.Table, where: Any) -> None:
    is_large = rows.num_rows >= _FEW_ROWS
    compression = "zstd" if is_large else "lz4"
    pq.write_table(
        rows,
        where,
        compression=compression,
        use_dictionary=is_large,
        write_statistics=is_large,
        write_page_checksum=True,
    )


_HEAD = ["episode_id", "attempt", "stop_reason"]


def merge_episodes(lake: Lake, **keys: str) -> None:
    """Merge a run's parts of episodes into one, with each attempt once. The caller locks the run.

    Args:
        lake: lake with the parts.
        keys: keys of the run's partition.

    Raises:
        SchemaMismatch: a part cannot be read. Nothing was changed.
        DiskFull: there is no room for the merged part. Nothing was changed.
    """
    parts = lake.parts("episodes", **keys)
    if len(parts) < 2:
        return
    heads = lake.read_arrow("episodes", parts, _HEAD)
    chosen = _one_of_each_attempt(heads)
    name = rows_id(heads.take(pa.array(chosen, pa.int64())).select(_HEAD[:2]).to_pylist())
    written = lake.write_pieces(
        "episodes", _rows_at(lake.read_pieces("episodes", parts), chosen), name, **keys
    )
    _remove_others(parts, written)


def _rows_at(pieces: Iterable[pa.Table], places: Sequence[int]) -> Iterator[pa.Table]:
    """Yield the rows of a table at ascending positions. The table comes in consecutive pieces."""
    start = 0
    for piece in pieces:
        end = start + piece.num_rows
        chosen = places[bisect_left(places, start) : bisect_left(places, end)]
        yield piece.take(pa.array((place - start for place in chosen), pa.int64()))
        start = end


def _one_of_each_attempt(head: pa.Table) -> list[int]:
    """Return the positions of the rows to keep: one of each attempt, in order.

    A row without an infra fault is preferred, and then the first row.
    """
    best: dict[tuple[str, int], tuple[bool, int]] = {}
    for at, row in enumerate(head.to_pylist()):
        rank = (row["stop_reason"] == StopReason.INFRA.value, at)
        key = (row["episode_id"], row["attempt"])
        best[key] = min(rank, best.get(key, rank))
    return sorted(at for _, at in best.values())


def replace_by_one(
    lake: Lake, table: str, merged: pa.Table, name: str, parts: Sequence[Path], **keys: str
) -> None:
    """Write one part, then remove the parts that it replaces. Newer parts stay.

    Args:
        lake: lake with the parts.
        table: table of the parts.
        merged: rows of the new part.
        name: name of the new part.
        parts: parts whose rows `merged` contains.
        keys: keys of the partition.

    Raises:
        DiskFull: there is no room for the new part. Nothing was changed.
    """
    _remove_others(parts, lake.write_arrow(table, merged, name, **keys))


def _remove_others(parts: Sequence[Path], written: Path) -> None:
    for part in parts:
        if part != written:
            part.unlink(missing_ok=True)
