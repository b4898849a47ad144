"""Read rows of CSV files, Parquet files and Hugging Face datasets as JSON lines."""

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
"""Prefix of a hub dataset in place of a path: `hf:OWNER/NAME` or `hf:OWNER/NAME@SPLIT`."""
_BATCH_ROWS = 256
_LONGEST_CELL = 1 << 26


def read_parquet(path: Path, columns: Collection[str]) -> Iterator[Line | Fault]:
    """Yield the rows of a Parquet file with those of the given columns that exist.

    Rows are numbered from 1. A fault ends the iteration.
    """
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
    """Yield the rows of a CSV file with a header, with those of the given columns that exist.

    Rows are numbered from 1. A row with a wrong number of fields yields a fault. A fault of the
    whole file ends the iteration.
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
                        "the number of fields differs from the first line",
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
    """Return the next row, which may have long cells.

    The size limit is process-wide, so it is restored afterwards.
    """
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        return next(rows, None)
    finally:
        csv.field_size_limit(before)


def is_hub_dataset(source: Path | str) -> bool:
    """Return True if the source is a dataset of the hub instead of a path."""
    return str(source).startswith(HUB)


def read_hub(source: Path | str, columns: Collection[str]) -> tuple[str, Iterator[Line]]:
    """Return the name and split of a hub dataset, and its rows numbered from 1.

    Rows hold those of the given columns that exist. Without a named split, the only split is read,
    or the newest if the split names are versions.

    Raises:
        SourceUnreadable: The dataset or split does not exist, the network fails, or the package
            `datasets` is not installed.
    """
    name, _, split = str(source).removeprefix(HUB).partition("@")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise SourceUnreadable(
            f"{source} is not a hub dataset: write {HUB}OWNER/NAME or {HUB}OWNER/NAME@SPLIT"
        )
    try:
        datasets: Any = import_module("datasets")  # optional, see the error below
    except ImportError:
        raise SourceUnreadable(
            f"{source}: reading from the hub needs the package `datasets`"
            " (pip install 'parley-eval[hub]'). `parley data` lists datasets that do not need it."
            " You can also download a Parquet file and name it with --data"
        ) from None
    try:
        chosen = _split(name, split, tuple(datasets.get_dataset_split_names(name)))
        table = datasets.load_dataset(name, split=chosen)
    except SourceUnreadable:
        raise
    except Exception as fault:  # Network, hub and cache raise errors of different libraries.
        why = str(fault).partition("\n")[0][:300] or type(fault).__name__
        raise SourceUnreadable(
            f"{source} could not be read from the hub: {why}. Check the name and the network."
            " You can also name a Parquet file with --data, or fetch a dataset listed by"
            " `parley data`"
        ) from fault
    return f"{name}@{chosen}", _hub_lines(table, columns)


def _hub_lines(table: Any, columns: Collection[str]) -> Iterator[Line]:
    present = table.select_columns([name for name in table.column_names if name in columns])
    for number, row in enumerate(present, 1):
        yield Line(number, _as_json(row))


def _split(name: str, choice: str, splits: tuple[str, ...]) -> str:
    if choice in splits:
        return choice
    if not choice and (
        len(splits) == 1 or (splits and all(re.search(r"\d", split) for split in splits))
    ):
        return max(splits, key=version_key)
    fault = f"has no split {choice!r}" if choice else "has several splits"
    raise SourceUnreadable(
        f"{HUB}{name} {fault}: name one of {', '.join(f'{HUB}{name}@{split}' for split in splits)}"
    )


def version_key(name: str) -> tuple[tuple[int, ...], str]:
    """Return a sort key for names with version numbers: v0.1.9 before v0.1.10."""
    return tuple(int(number) for number in re.findall(r"\d+", name)), name


def _as_json(row: Mapping[str, Any]) -> bytes:
    """Return a row as JSON.

    A cell without a JSON form becomes an object with its type, which no text field accepts.
    """
    return json.dumps(
        row, ensure_ascii=False, default=lambda cell: {"type": type(cell).__name__}
    ).encode("utf-8", "surrogatepass")
