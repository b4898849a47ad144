"""Common parts of the datasets: locating raw files and reading rows as normalised dialogues.

`Questions` has the texts around the data's questions: Parley's, or custom texts from
`--templates DIR`.

Each dataset is first converted to UniDial-EvalKit's normalised dialogue (paper section 2.1), as
stored in its files.
"""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tasks.benchmarks.raw_rows import BadRow, matching, read_rows
from tasks.benchmarks.templates import Template, Texts, render

_RAW = ConfigDict(extra="allow", strict=True)


class MetricConfig(BaseModel):
    """Metric that the data define for a turn, with its arguments."""

    model_config = _RAW

    class_name: str
    args: dict[str, Any] = Field(default_factory=dict[str, Any])


class EvalConfig(BaseModel):
    """Evaluation of a turn: whether the model generates it, and which metrics measure it."""

    model_config = _RAW

    do_eval: bool = False
    metrics: list[MetricConfig] = Field(default_factory=list[MetricConfig])
    dynamic_config_source: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Source from which a dataset derives metrics if `metrics` is empty."""


class NormalTurn(BaseModel):
    """Turn of a normalised dialogue: a message, or the place of an answer to generate."""

    model_config = _RAW

    turn_id: int
    role: Literal["system", "user", "assistant"]
    content: str | None = None
    reference: str | list[str] | None = None
    reference_document: Any = None
    eval_config: EvalConfig = Field(default_factory=EvalConfig)
    turn_labels: dict[str, Any] = Field(default_factory=dict[str, Any])

    @property
    def is_generated(self) -> bool:
        """Return True if the model under test generates the turn, regardless of its content."""
        return self.role == "assistant" and self.eval_config.do_eval


class DialogConfig(BaseModel):
    """Choice of a dialogue's history: reference answers, or the model's own."""

    model_config = _RAW

    use_reference_history: bool = False


class NormalDialog(BaseModel):
    """Dialogue in the normalised form."""

    model_config = _RAW

    dialog_id: int
    dialog_raw_info: dict[str, Any] = Field(default_factory=dict[str, Any])
    dialog_labels: dict[str, Any] = Field(default_factory=dict[str, Any])
    dialog_eval_config: DialogConfig = Field(default_factory=DialogConfig)
    dialog_turns: list[NormalTurn]


def scripted_turn(
    role: Literal["system", "user", "assistant"], content: str, **labels: Any
) -> NormalTurn:
    """Return a message from the data. `number_turns` sets its id."""
    return NormalTurn(turn_id=0, role=role, content=content, turn_labels=labels)


def answer_turn(
    reference: str | list[str] | None = None,
    *metrics: MetricConfig,
    document: Any = None,
    source: dict[str, Any] | None = None,
    **labels: Any,
) -> NormalTurn:
    """Return a turn that the model under test answers."""
    config = EvalConfig(do_eval=True, metrics=list(metrics), dynamic_config_source=source or {})
    return NormalTurn(
        turn_id=0,
        role="assistant",
        reference=reference,
        reference_document=document,
        eval_config=config,
        turn_labels=labels,
    )


def metric_config(name: str, **arguments: Any) -> MetricConfig:
    """Return a metric with its arguments."""
    return MetricConfig(class_name=name, args=arguments)


_CHUNK = 8_000_000
"""Number of characters that are read at a time from a file with a long list."""
_BLANKS = re.compile(r"\s*")
MOST_TOKENS = 1024
"""Maximum tokens of one answer unless a dataset states its own (section 3.2)."""
NO_TEXTS: Texts = {}


@dataclass(frozen=True)
class RawDialog:
    """Row with its dialogue, or with the reason why it has none."""

    file: Path
    line: int
    dialog: NormalDialog | BadRow
    content: bytes = b""
    """Start of the row, for the quarantine."""
    history: Sequence[NormalTurn] = ()
    """Long conversation that precedes the dialogue.

    Rows with the same history share the object.
    """
    n_history: int | None = None
    """Number of turns from the start of the history that precede the dialogue. None means all."""
    is_normalised: bool = False
    """True if the row is in the normalised form. All its fields are then preserved."""


FindFiles = Callable[[Path], Sequence[Path]]
"""Function that returns a dataset's files in a folder, or none for another dataset's folder."""
ReadRows = Callable[..., Iterator[RawDialog]]
"""Function that reads the rows of a dataset's files.

Its arguments are the files and, for a dataset with `questions`, the `Questions`.
"""


@dataclass(frozen=True)
class Dataset:
    """Dataset, which is also a setting."""

    name: str
    help: str
    find: FindFiles
    read: ReadRows
    rubrics: tuple[str, ...] = ()
    metrics_of: Callable[[dict[str, Any]], Sequence[MetricConfig]] = lambda source: ()
    """Function that derives a turn's metrics from the turn's `dynamic_config_source`.

    It is called only for turns that list no metrics.
    """
    says_source: bool = True
    """False if `metrics_of` ignores its source, so that a source does not identify the dataset."""
    max_tokens: int = MOST_TOKENS
    """Maximum tokens of one answer."""
    questions: Mapping[str, Template] = field(default_factory=dict[str, Template])
    """Texts around the dataset's questions, which `--templates` may replace."""


def numbered(folder: Path) -> list[Path]:
    """Return the files `N.json` of a folder by number, including packed ones."""
    files = [
        path
        for path in matching(folder, "[0-9]*.json")
        if re.fullmatch(r"\d+\.json(\.gz)?", path.name)
    ]
    return sorted(files, key=lambda path: int(path.name.partition(".")[0]))


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow, bytes]]:
    """Yield line number, JSON object and raw content of each line, or of each row of a table.

    A line that is not an object yields the BadRow with the reason.
    """
    for line in read_rows(path):
        try:
            yield line.number, line.fields(), line.content
        except BadRow as bad:
            yield line.number, bad, line.content


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        BadRow: unreadable_file, not_utf8 or broken_json.
    """
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return json.loads(data.decode("utf-8"))
    except (OSError, EOFError, zlib.error) as fault:
        raise BadRow("unreadable_file", str(fault)) from None
    except UnicodeDecodeError as fault:
        raise BadRow("not_utf8", f"byte {fault.start} is not UTF-8") from None
    except (ValueError, RecursionError) as fault:
        raise BadRow("broken_json", str(fault) or type(fault).__name__) from None


def read_json_list(path: Path) -> Iterator[Any]:
    """Yield the elements of a file's JSON list one by one.

    LongMemEval's largest file has 2.7 GB, so files are read in parts.

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
    except (OSError, EOFError, zlib.error) as fault:
        raise BadRow("unreadable_file", str(fault)) from None
    except RecursionError as fault:
        raise BadRow("broken_json", type(fault).__name__) from None


def _elements(file: IO[str]) -> Iterator[Any]:
    decode, text, place = json.JSONDecoder().raw_decode, file.read(_CHUNK).lstrip(), 1
    if not text.startswith("["):
        raise BadRow("wrong_type", "the file has no list")
    while text[(place := _after_blanks(text, place)) : place + 1] != "]":
        try:
            value, end = decode(text, place)
            end = _after_blanks(text, end)
            if text[end : end + 1] not in (",", "]"):
                raise ValueError("an element of the list is not followed by a comma or ]")
        except ValueError as fault:
            more = file.read(max(_CHUNK, len(text) - place))
            if not more:
                raise BadRow("broken_json", str(fault)) from None
            text, place = text[place:] + more, 0
            continue
        yield value
        place = end + (text[end] == ",")


def _after_blanks(text: str, place: int) -> int:
    """Return the position of the next character that is not white space."""
    match = _BLANKS.match(text, place)
    return match.end() if match else place


def read_each(
    files: Sequence[Path],
    make: Callable[[dict[str, Any], int, Path, int], NormalDialog],
) -> Iterator[RawDialog]:
    """Yield one dialogue per line, numbered over all files.

    Args:
        files: Files to read.
        make: Function from (row, dialog id, file, 0-based line number) to dialogue.
    """
    number = 0
    for path in files:
        for line, row, content in read_objects(path):
            yield RawDialog(
                path,
                line,
                row if isinstance(row, BadRow) else attempt(make, row, number, path, line - 1),
                content,
            )
            number += 1


def attempt(make: Callable[..., NormalDialog], *arguments: Any) -> NormalDialog | BadRow:
    """Return the dialogue, or the reason why it cannot be made."""
    try:
        return number_turns(make(*arguments))
    except BadRow as bad:
        return bad
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as fault:
        missing = isinstance(fault, KeyError)
        return BadRow(
            "missing_field" if missing else "wrong_type", f"{type(fault).__name__}: {fault}"
        )


def number_turns(dialog: NormalDialog) -> NormalDialog:
    """Return the dialogue with turns numbered from 0 if they have no ids yet."""
    if all(turn.turn_id == 0 for turn in dialog.dialog_turns):
        for number, turn in enumerate(dialog.dialog_turns):
            turn.turn_id = number
    return dialog


def file_name(path: Path) -> str:
    """Return the file's name without `.gz`, as in upstream's data."""
    return path.name.removesuffix(".gz")


def row_excerpt(row: object) -> bytes:
    """Return the start of a row that is not a line, for the quarantine."""
    return str(row)[:300].encode("utf-8", "replace")


def shown_text(dataset: str, text: str, *needed: str) -> Template:
    """Return the template of a text that a dataset's dialogues show to the model.

    Args:
        dataset: Name of the dataset.
        text: Parley's text.
        needed: Placeholders that a custom text must contain.
    """
    return Template("question", (dataset,), text, needed)


class Questions:
    """Texts of one dataset, with a record of whether a custom text was used."""

    def __init__(self, templates: Mapping[str, Template], texts: Texts = NO_TEXTS) -> None:
        self._templates, self._texts = templates, texts
        self._has_shown = False

    def render(self, name: str, **values: str) -> str:
        """Return the named text with its values."""
        self._has_shown |= name in self._texts
        return render(self._texts.get(name, self._templates[name].text), values)

    def take_shown(self) -> bool:
        """Return True if a custom text was rendered since the last call."""
        has_shown, self._has_shown = self._has_shown, False
        return has_shown
