"""What each dataset's file offers: where its raw files lie, and their rows as normalised dialogues."""

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from tasks.benchmarks.raw_lines import BadRow, Fault, parse_object, read_lines
from tasks.benchmarks.templates import Template
from tasks.benchmarks.unidial.normal import MetricConfig, NormalDialog, NormalTurn

_CHUNK = 8_000_000
"""Letters of a long list that are read at once."""
_BLANKS = re.compile(r"\s*")
MOST_TOKENS = 1024
"""Of one answer, where a dataset says nothing else (section 3.2)."""


@dataclass(frozen=True)
class Read:
    """One row: the dialogue that it makes, or why it makes none."""

    file: Path
    line: int
    dialog: NormalDialog | BadRow
    content: bytes = b""
    """The row's beginning, for the quarantine."""
    history: Sequence[NormalTurn] = ()
    """A long talk before the dialogue's own turns. Rows that share it share the object, and it is kept once."""
    n_history: int | None = None
    """Turns of the history, from its first one, that come before the dialogue's own; None for all."""
    is_normalised: bool = False
    """Whether the row was in the normalised form already: it is then kept to the letter."""


class FindFiles(Protocol):
    """Names a dataset's files in a folder; none where the folder is of another dataset."""

    def __call__(self, folder: Path) -> Sequence[Path]: ...


ReadRows = Callable[..., Iterator[Read]]
"""Reads the rows of a dataset's files. Its arguments: the files, and of a dataset that has `questions` the `Questions`, too."""


def no_metrics(source: dict[str, Any]) -> Sequence[MetricConfig]:
    """None are made of anything."""
    return ()


@dataclass(frozen=True)
class Dataset:
    """One dataset, which is one setting."""

    name: str
    help: str
    find: FindFiles
    read: ReadRows
    rubrics: tuple[str, ...] = ()
    metrics_of: Callable[[dict[str, Any]], Sequence[MetricConfig]] = no_metrics
    """Metrics of a turn that names none, made of its `dynamic_config_source`."""
    says_source: bool = True
    """False where `metrics_of` does not look at its source, so that the source does not tell the dataset."""
    max_tokens: int = MOST_TOKENS
    """Of one answer."""
    questions: Mapping[str, Template] = field(default_factory=dict[str, Template])
    """Texts around its questions that a user may replace."""
    metrics: tuple[str, ...] = field(default=())
    """What it measures, for its README and tests."""


def metrics_of(dataset: Dataset | None, source: dict[str, Any]) -> Sequence[MetricConfig]:
    """Metrics of a turn that names none; without a dataset, of whichever dataset such a source is."""
    if dataset is not None:
        return dataset.metrics_of(source)
    from tasks.benchmarks.unidial.datasets import DATASETS

    return next(
        (
            made
            for one in DATASETS.values()
            if source and one.says_source and (made := one.metrics_of(source))
        ),
        (),
    )


def matching(folder: Path, *patterns: str) -> tuple[Path, ...]:
    """Files of a folder by patterns, packed ones too, each once: a plain file goes before its packed copy."""
    found: dict[str, Path] = {}
    for pattern in patterns:
        for path in sorted([*folder.glob(pattern), *folder.glob(f"{pattern}.gz")]):
            found.setdefault(path.name.removesuffix(".gz"), path)
    return tuple(found.values())


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow, bytes]]:
    """The JSON objects of a file's lines with their numbers; what is none says why."""
    for item in read_lines(path):
        if isinstance(item, Fault):
            yield item.number, BadRow(item.reason, item.detail), b""
            continue
        try:
            yield item.number, parse_object(item.content), item.content
        except BadRow as bad:
            yield item.number, bad, item.content


def whole_json(path: Path) -> Any:
    """What a file holds as JSON.

    Raises:
        BadRow: unreadable_file, not_utf8 or broken_json.
    """
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return json.loads(data.decode("utf-8"))
    except (OSError, EOFError) as fault:
        raise BadRow("unreadable_file", str(fault)) from None
    except UnicodeDecodeError as fault:
        raise BadRow("not_utf8", f"byte {fault.start} is not UTF-8") from None
    except (ValueError, RecursionError) as fault:
        raise BadRow("broken_json", str(fault) or type(fault).__name__) from None


def listed_json(path: Path) -> Iterator[Any]:
    """Yield the elements of a file's JSON list one by one: LongMemEval's largest file has 2.7 GB.

    Raises:
        BadRow: unreadable_file, not_utf8, broken_json or wrong_type.
    """
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8") as file
        ):
            yield from _elements(file)
    except UnicodeDecodeError as fault:
        raise BadRow("not_utf8", f"byte {fault.start} is not UTF-8") from None
    except (OSError, EOFError) as fault:
        raise BadRow("unreadable_file", str(fault)) from None
    except RecursionError as fault:
        raise BadRow("broken_json", type(fault).__name__) from None


def _elements(file: IO[str]) -> Iterator[Any]:
    decode, held, place = json.JSONDecoder().raw_decode, file.read(_CHUNK).lstrip(), 1
    if not held.startswith("["):
        raise BadRow("wrong_type", "the file holds no list")
    while held[(place := _after_blanks(held, place)) : place + 1] != "]":
        try:
            value, end = decode(held, place)
            end = _after_blanks(held, end)
            if held[end : end + 1] not in (",", "]"):
                raise ValueError("an element of the list has no end")
        except ValueError as fault:
            more = file.read(max(_CHUNK, len(held) - place))
            if not more:
                raise BadRow("broken_json", str(fault)) from None
            held, place = held[place:] + more, 0
            continue
        yield value
        place = end + (held[end] == ",")


def _after_blanks(text: str, place: int) -> int:
    """Return the place of the next character that is no white space."""
    found = _BLANKS.match(text, place)
    return found.end() if found else place


def read_each(
    files: Sequence[Path],
    make: Callable[[dict[str, Any], int, Path, int], NormalDialog],
    first_id: int = 0,
) -> Iterator[Read]:
    """One dialogue a line, numbered over all files.

    Args:
        make: the dialogue of (row, dialog id, file, line from 0).
    """
    number = first_id
    for path in files:
        for line, row, content in objects(path):
            yield Read(
                path,
                line,
                row if isinstance(row, BadRow) else attempt(make, row, number, path, line - 1),
                content,
            )
            number += 1


def attempt(make: Callable[..., NormalDialog], *given: Any) -> NormalDialog | BadRow:
    """The dialogue that is made, or why none can be."""
    try:
        return numbered(make(*given))
    except BadRow as bad:
        return bad
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as fault:
        missing = isinstance(fault, KeyError)
        return BadRow(
            "missing_field" if missing else "wrong_type", f"{type(fault).__name__}: {fault}"
        )


def numbered(dialog: NormalDialog) -> NormalDialog:
    """The dialogue with its turns numbered from 0 where they have no numbers yet."""
    if all(turn.turn_id == 0 for turn in dialog.dialog_turns):
        for number, turn in enumerate(dialog.dialog_turns):
            turn.turn_id = number
    return dialog


def file_name(path: Path) -> str:
    """Name as upstream's own files have it, whether packed here or not."""
    return path.name.removesuffix(".gz")


def shown(row: object) -> bytes:
    """Beginning of a row that is no line, for the quarantine."""
    return str(row)[:300].encode("utf-8", "replace")
