"""Parse and validate rows of raw files. Invalid rows are quarantined with a reason."""

import gzip
import json
import os
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from schemas.problem import QuarantinedRow

SUFFIXES = (".jsonl", ".jsonl.gz")
MAX_DETAIL = 500
EXCERPT_LENGTH = 200
_BOM = b"\xef\xbb\xbf"

Row = TypeVar("Row", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Line:
    """Non-blank line with its number, counting all lines from 1."""

    number: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Fault:
    """Reading error before line `number`. Number 0 means that nothing could be read."""

    number: int
    reason: str
    detail: str


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
        yield Fault(
            number + 1 if number else 0, "torn_gzip", f"{fault}. Unpack it, or fetch it again"
        )
    except OSError as fault:
        yield Fault(
            number + 1 if number else 0, "unreadable_file", fault.strerror or type(fault).__name__
        )


def relative_name(path: Path, source: Path) -> str:
    """Return the file's path relative to the source, so that tables hold no path of a machine."""
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


def quarantined_row(
    benchmark: str, dataset_version: str, file: str, line: int, bad: BadRow, content: bytes = b""
) -> QuarantinedRow:
    """Return the record of a row that could not be staged, with the start of its `content`."""
    return QuarantinedRow(
        benchmark=benchmark,
        dataset_version=dataset_version,
        source_file=file,
        source_line=line,
        reason=bad.reason,
        detail=bad.detail,
        excerpt=content[: EXCERPT_LENGTH * 4].decode("utf-8", "replace")[:EXCERPT_LENGTH],
    )


def nothing_read(source: Path, n_files: int, faults: Sequence[QuarantinedRow]) -> str:
    """Return the error message for files without a readable row."""
    details = (
        "; ".join(f"{fault.source_file}: {fault.detail}" for fault in faults)
        or f"{n_files} empty file(s)"
    )
    return (
        f"{source} has task files but no readable row ({details}). "
        "Fetch them again, or name another file or folder"
    )
