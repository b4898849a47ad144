"""Reads rows of CSV and Parquet files and of the Hugging Face hub's datasets, in the form of JSON lines."""

import csv
import json
import re
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from schemas.errors import SourceUnreadable
from tasks.benchmarks.raw_lines import Fault, Line

HUB = "hf:"
"""Begins a dataset of the hub, given in the place of a path: `hf:OWNER/NAME` or `hf:OWNER/NAME@SPLIT`."""
_BATCH_ROWS = 256
_LONGEST_CELL = 1 << 26


def read_parquet(path: Path, columns: Collection[str]) -> Iterator[Line | Fault]:
    """Rows of a file, numbered from 1, with whichever of the columns it has; a fault ends them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            present = [name for name in file.schema_arrow.names if name in columns]
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=present):
                for row in batch.to_pylist():
                    number += 1
                    yield Line(number, _as_json(row))
    except (OSError, ValueError, pa.ArrowException) as fault:
        yield Fault(
            number + 1 if number else 0,
            "unreadable_file",
            str(fault).partition("\n")[0] or type(fault).__name__,
        )


def read_csv(path: Path, columns: Collection[str]) -> Iterator[Line | Fault]:
    """Rows of a file with a line of names, numbered from 1, with whichever of the columns it has.

    A row of another number of fields is a fault of its own. A fault of the file ends them.
    """
    number = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True)
            while (row := _next_row(rows)) is not None:
                number += 1
                if None in row or None in row.values():
                    yield Fault(
                        number,
                        "broken_csv",
                        "the row has another number of fields than the first line",
                    )
                    continue
                yield Line(
                    number, _as_json({name: cell for name, cell in row.items() if name in columns})
                )
    except (OSError, ValueError, csv.Error) as fault:
        yield Fault(
            number + 1 if number else 0,
            "unreadable_file",
            str(fault).partition("\n")[0] or type(fault).__name__,
        )


def _next_row(rows: "csv.DictReader[str]") -> dict[str, Any] | None:
    """The next row, whose cells may be long. The bound is the whole process's: it is put back."""
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        return next(rows, None)
    finally:
        csv.field_size_limit(before)


def is_hub_dataset(source: Path | str) -> bool:
    """Whether a dataset of the hub is meant, not a path."""
    return str(source).startswith(HUB)


def read_hub(source: Path | str, columns: Collection[str]) -> tuple[str, Iterator[Line]]:
    """A dataset of the hub: its name with the split, and its rows, numbered from 1, with whichever of the columns it has.

    Without a split, the only one is read, or the newest where the splits' names are versions.

    Raises:
        SourceUnreadable: no such dataset or split, no network, or the package `datasets` is not installed.
    """
    name, _, split = str(source).removeprefix(HUB).partition("@")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise SourceUnreadable(
            f"{source} names no dataset of the hub: write {HUB}OWNER/NAME or {HUB}OWNER/NAME@SPLIT"
        )
    try:
        datasets: Any = import_module("datasets")  # an extra: the next lines say how to get it
    except ImportError:
        raise SourceUnreadable(
            f"{source}: reading from the hub needs the package `datasets` (pip install 'parley-eval[hub]')."
            " `parley data` lists the datasets that need no such package. Else download a Parquet file and give that by --data"
        ) from None
    try:
        chosen = _split(name, split, tuple(datasets.get_dataset_split_names(name)))
        table = datasets.load_dataset(name, split=chosen)
    except SourceUnreadable:
        raise
    except Exception as fault:  # network, hub and cache each raise errors of their own libraries
        why = str(fault).partition("\n")[0][:300] or type(fault).__name__
        raise SourceUnreadable(
            f"{source} could not be read from the hub: {why}. Is the name right, and is there a network?"
            " Otherwise give a Parquet file by --data, or see `parley data` for datasets that can be fetched"
        ) from fault
    return f"{name}@{chosen}", _hub_lines(table, columns)


def _hub_lines(table: Any, columns: Collection[str]) -> Iterator[Line]:
    present = table.select_columns([name for name in table.column_names if name in columns])
    for number, row in enumerate(present, 1):
        yield Line(number, _as_json(row))


def _split(name: str, wanted: str, known: tuple[str, ...]) -> str:
    if wanted in known:
        return wanted
    if not wanted and (
        len(known) == 1 or (known and all(re.search(r"\d", split) for split in known))
    ):
        return max(known, key=version_key)
    fault = f"has no split {wanted!r}" if wanted else "has several splits"
    raise SourceUnreadable(
        f"{HUB}{name} {fault}: give one of {', '.join(f'{HUB}{name}@{split}' for split in known)}"
    )


def version_key(name: str) -> tuple[tuple[int, ...], str]:
    """Sort key of names with version numbers: v0.1.9 before v0.1.10."""
    return tuple(int(number) for number in re.findall(r"\d+", name)), name


def _as_json(row: Mapping[str, Any]) -> bytes:
    """A cell that JSON has no form for becomes an object that names its type: no text field takes that."""
    return json.dumps(
        row, ensure_ascii=False, default=lambda cell: {"type": type(cell).__name__}
    ).encode("utf-8", "surrogatepass")
