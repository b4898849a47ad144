"""Rows of a benchmark's raw files (JSON, CSV, Parquet, hub datasets): validated or quarantined."""

import csv
import gzip
import json
import os
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from schemas.errors import SourceUnreadable

SUFFIXES = (".jsonl", ".jsonl.gz")
MAX_DETAIL = 500
_BOM = b"\xef\xbb\xbf"

Row = TypeVar("Row", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Line:
    """Non-blank line with its number, counting all lines from 1."""

    number: int
    content: bytes

    def fields(self) -> dict[str, Any]:
        """Return the JSON object on the line. Raise BadRow if there is none."""
        return parse_object(self.content)


@dataclass(frozen=True, slots=True)
class Fault:
    """Reading error before line `number`. Number 0 means that nothing could be read."""

    number: int
    reason: str
    detail: str
    content: ClassVar[bytes] = b""

    def fields(self) -> dict[str, Any]:
        """Raise BadRow."""
        raise BadRow(self.reason, self.detail)


class BadRow(ValueError):
    """Row that cannot be staged. `reason` is machine-readable."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail if len(detail) <= MAX_DETAIL else detail[: MAX_DETAIL - 1] + "…"


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank_text", "the text is blank")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
"""Non-blank text field. Otherwise the row is quarantined as `blank_text`."""


class RawModel(BaseModel):
    """Row of a raw file, or a part of one: strict about types, without its unknown fields."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


def matching(folder: Path, *patterns: str) -> tuple[Path, ...]:
    """Return the files of a folder that match patterns, including packed ones.

    Each file appears once: an unpacked file takes precedence over its packed copy.
    """
    paths: dict[str, Path] = {}
    for pattern in patterns:
        for path in sorted([*folder.glob(pattern), *folder.glob(f"{pattern}.gz")]):
            paths.setdefault(str(path).removesuffix(".gz"), path)
    return tuple(paths.values())


def single_file(source: Path, suffixes: tuple[str, ...], title: str) -> tuple[Path, ...]:
    """Return the file that a source names. Empty if the source is a folder.

    Args:
        source: Path of the raw data.
        suffixes: Suffixes of files that can be read.
        title: Name of the data in error messages.

    Raises:
        SourceUnreadable: The path does not exist, or is a file with another suffix.
    """
    if source.is_file() and not source.name.endswith(suffixes):
        raise SourceUnreadable(
            f"{source} is not a {', '.join(suffixes)} file. Name such a file, or its folder"
        )
    if not source.exists():
        raise SourceUnreadable(
            f"{source} does not exist. Name the folder of {title}'s files, or one of them"
        )
    return (source,) if source.is_file() else ()


def read_lines(path: Path) -> Iterator[Line | Fault]:
    """Yield the non-blank lines of a file. A fault ends the iteration."""
    number = 0
    try:
        with gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                content = (raw.removeprefix(_BOM) if number == 1 else raw).strip(b" \t\r\n")
                if content:
                    yield Line(number, content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        yield _end(number, "torn_gzip", f"{fault}. Unpack it, or fetch it again")
    except OSError as fault:
        yield _end(number, "unreadable_file", fault.strerror or type(fault).__name__)


def _end(n_read: int, reason: str, detail: str) -> Fault:
    """Return the fault that ends a file after this number of rows."""
    return Fault(n_read + 1 if n_read else 0, reason, detail)


def read_rows(path: Path, columns: Collection[str] | None = None) -> Iterator[Line | Fault]:
    """Yield the rows of a CSV, Parquet or JSONL file, according to its suffix.

    Args:
        path: File to read.
        columns: Columns to read from a table, by default all. If it names none, every file has
            JSON lines.
    """
    has_tables = columns is None or bool(columns)
    if has_tables and path.name.endswith(".csv"):
        return read_csv(path, columns)
    if has_tables and path.name.endswith(".parquet"):
        return read_parquet(path, columns)
    return read_lines(path)


def relative_name(path: Path, source: Path) -> str:
    """Return the file's path relative to the source, so that tables contain no absolute path."""
    root = source if source.is_dir() else source.parent
    return Path(os.path.relpath(path, root)).as_posix()


def parse_object(content: bytes) -> dict[str, Any]:
    """Return the JSON object on a line.

    Raises:
        BadRow: not_utf8, broken_json, duplicate_key, not_an_object or lone_surrogate.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise BadRow("not_utf8", f"byte {fault.start} of the line is not UTF-8") from None
    try:
        raw = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except BadRow:
        raise
    except (ValueError, RecursionError) as fault:
        raise BadRow("broken_json", str(fault) or type(fault).__name__) from None
    if not isinstance(raw, dict):
        raise BadRow("not_an_object", f"the line holds a {type(raw).__name__}, not an object")
    try:
        json.dumps(raw, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise BadRow(
            "lone_surrogate", "a text holds half a surrogate pair, which no file can store"
        ) from None
    except RecursionError:
        raise BadRow("broken_json", "nested too deeply") from None
    return raw


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        names = [name for name, _ in pairs]
        raise BadRow(
            "duplicate_key",
            f"the key {next(n for n in names if names.count(n) > 1)!r} occurs twice in one object",
        )
    return unique


def _refuse_constant(name: str) -> None:
    raise BadRow("broken_json", f"{name} is not JSON")


def validated(model: type[Row], raw: dict[str, Any], own_reasons: Collection[str] = ()) -> Row:
    """Return the row as an instance of its model.

    Args:
        model: Model of the row.
        raw: Row as read.
        own_reasons: Types of the model's PydanticCustomErrors that are used as reasons unchanged.

    Raises:
        BadRow: missing_field, wrong_type, blank_text or one of `own_reasons`. The detail names the
            fields.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as invalid:
        kind = invalid.errors()[0]["type"]
        other = "missing_field" if kind == "missing" else "wrong_type"
        raise BadRow(
            kind if kind in ("blank_text", *own_reasons) else other, _describe(invalid)
        ) from None


def _describe(invalid: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(p) for p in error['loc'] if p != '[key]') or 'row'}: {error['msg']}"
        for error in invalid.errors()
    )


def read_models(
    path: Path, model: type[Row], lines: Iterable[Line | Fault] | None = None
) -> Iterator[tuple[str, Row]]:
    """Yield the place (file and line) and the validated content of each line of a file.

    Args:
        path: File to read.
        model: Model of a row.
        lines: Lines of the file, if they are read in another way than by `read_lines`.

    Raises:
        SourceUnreadable: A line cannot be read, or is not such a row. The message names the line.
    """
    for line in read_lines(path) if lines is None else lines:
        place = f"{path}:{line.number}"
        try:
            yield place, validated(model, line.fields())
        except BadRow as bad:
            raise SourceUnreadable(
                f"{place}: {bad.reason}: {bad.detail}. Fetch the file again, or rebuild it"
            ) from None


HUB = "hf:"
"""Prefix of a hub dataset in place of a path: `hf:OWNER/NAME` or `hf:OWNER/NAME@SPLIT`."""
_BATCH_ROWS = 256
_LONGEST_CELL = 1 << 26


def read_parquet(path: Path, columns: Collection[str] | None = None) -> Iterator[Line | Fault]:
    """Yield the rows of a Parquet file with those of the given columns that exist.

    Rows are numbered from 1. A fault ends the iteration.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            present = [name for name in file.schema_arrow.names if _is_read(name, columns)]
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=present):
                for row in batch.to_pylist():
                    number += 1
                    yield Line(number, _as_json(row))
    except (OSError, ValueError, pa.ArrowException) as fault:
        yield _end(number, "unreadable_file", _first_line(fault))


def _is_read(name: str, columns: Collection[str] | None) -> bool:
    return columns is None or name in columns


def _first_line(fault: Exception) -> str:
    return str(fault).partition("\n")[0] or type(fault).__name__


def read_csv(path: Path, columns: Collection[str] | None = None) -> Iterator[Line | Fault]:
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
                    wrong = "the number of fields differs from the first line"
                    yield Fault(number, "broken_csv", wrong)
                    continue
                cells = {name: cell for name, cell in row.items() if _is_read(name, columns)}
                yield Line(number, _as_json(cells))
    except (OSError, ValueError, csv.Error) as fault:
        yield _end(number, "unreadable_file", _first_line(fault))


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
        raise SourceUnreadable(
            f"{source} could not be read from the hub: {_first_line(fault)[:300]}. Check the"
            " name and the network. You can also name a Parquet file with --data, or fetch a"
            " dataset listed by `parley data`"
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
