"""Recordings of answers as JSONL (`.gz` allowed), one answer a line.

A line is `{"problem_id", "turn", "sample", "content"}`. Additional keys are allowed and ignored. A
recording makes a published run repeatable without its model.

A judge's recording has `{"benchmark", "rubric", "problem_id", "turn", "sample", "content"}` a line
(turn 0: the whole dialogue), or `{"prompt", "content"}` with the digest of the whole prompt. If a
turn has several answers, a line has its number within the turn as `step` (from 0, which may be left
out), and the tool calls of the answer as `calls`: `{"call_id", "name", "arguments"}` each, with the
arguments as JSON text.

The module also contains the controls, whose scores bound those of real models. `control:gold`
answers with the benchmark's reference answers, `control:empty` with empty ones.
"""

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

from schemas.content_id import ID_LENGTH, text_digest
from schemas.episode import ToolCall
from schemas.errors import AnswerMissing, ConfigError, ReferenceMissing, UsageError
from schemas.run import ModelIdentity
from tasks.language.chat_model import ChatRequest, Completion, prompt_text
from tasks.language.endpoints.wire import valid_unicode
from tasks.storage.new_folder import replace_file

AnswerKey = tuple[str | int, ...]
"""Key of a recorded answer: (id of a problem or dialog, 1-based round, 0-based sample).

All but the first answer of a turn add their number, from 1. A judgement's key begins with
`BENCHMARK.RUBRIC`, or is the digest of its prompt alone.
"""


@dataclass(frozen=True)
class RecordedAnswer:
    """Line of a recording: one answer."""

    problem_id: str
    """Id of the problem, or of one of its dialogs if it has several."""
    turn: int
    content: str
    sample: int = 0
    step: int = 0
    """Number of the answer within its turn."""
    calls: tuple[ToolCall, ...] = ()
    rubric: str = ""
    """Rubric of a judge's answer. `benchmark` is the benchmark with the rubric."""
    benchmark: str = ""

    @property
    def line(self) -> dict[str, object]:
        """Return the fields of this answer's line in a recording.

        Fields that are newer than the first format appear only if they are set.
        """
        record: dict[str, object] = {
            "problem_id": self.problem_id,
            "turn": self.turn,
            "sample": self.sample,
        }
        step = {"step": self.step} if self.step else {}
        calls = {"calls": [call.model_dump() for call in self.calls]} if self.calls else {}
        judged = {"benchmark": self.benchmark, "rubric": self.rubric} if self.rubric else {}
        return {**judged, **record, **step, "content": valid_unicode(self.content), **calls}


@dataclass(frozen=True)
class Recording:
    """Answers of a recording by problem or dialogue, turn, sample and number within the turn."""

    digest: str
    """Digest of the uncompressed content, equal for `x.jsonl` and `x.jsonl.gz`."""
    answers: Mapping[AnswerKey, str]
    calls: Mapping[AnswerKey, tuple[ToolCall, ...]] = field(
        default_factory=dict[AnswerKey, tuple[ToolCall, ...]]
    )
    """Tool calls by key of the answer, for answers with tool calls."""


def recording_name(path: PurePath) -> str:
    """Return the file name without `.jsonl` or `.jsonl.gz`."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def load_recording(path: Path) -> Recording:
    """Read a recording. A process reads each file once, until it changes.

    Raises:
        UsageError: The file does not exist or cannot be read.
        ConfigError: A line is not an answer, or a turn has two. The message names file and line.
    """
    try:
        facts = path.stat()
        return _load(path.resolve(), facts.st_mtime_ns, facts.st_size)
    except FileNotFoundError:
        raise UsageError(
            f"recording {path} does not exist; `parley import` and `parley export recording`"
            " write recordings"
        ) from None
    except (OSError, EOFError) as error:
        raise UsageError(
            f"recording {path} cannot be read ({type(error).__name__}: {error})"
        ) from None


@lru_cache(maxsize=8)
def _load(path: Path, mtime_ns: int, size: int) -> Recording:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    answers: dict[AnswerKey, str] = {}
    calls: dict[AnswerKey, tuple[ToolCall, ...]] = {}
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        key, content, tool_calls = _answer(line, f"recording {path}, line {number}")
        if key in answers:
            raise ConfigError(
                f"recording {path}, line {number}: a second answer for {_key_text(key)};"
                " keep one of them"
            )
        answers[key] = content
        if tool_calls:
            calls[key] = tool_calls
    if not answers:
        raise ConfigError(f"recording {path} contains no answers")
    return Recording(
        digest=hashlib.sha256(data).hexdigest()[:ID_LENGTH], answers=answers, calls=calls
    )


def _answer(line: bytes, place: str) -> tuple[AnswerKey, str, tuple[ToolCall, ...]]:
    try:
        record: Any = json.loads(line)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{place}: the line is not JSON in UTF-8 ({error})") from None
    expected_form = (
        'a line must be {"problem_id": text, "turn": 1.., "sample": 0.., "content": text}'
    )
    if not isinstance(record, dict):
        raise ConfigError(
            f"{place}: the line is a {type(record).__name__}, not an object; {expected_form}"
        )
    rubric = _rubric(record, place)
    if isinstance(record.get("prompt"), str) and isinstance(record.get("content"), str):
        return (record["prompt"],), valid_unicode(record["content"]), ()
    problem_id, turn, content = record.get("problem_id"), record.get("turn"), record.get("content")
    sample, step = record.get("sample", 0), record.get("step", 0)
    if not isinstance(problem_id, str) or not problem_id:
        raise ConfigError(f"{place}: problem_id is {problem_id!r}; {expected_form}")
    if type(turn) is not int or turn < (0 if rubric else 1):
        raise ConfigError(f"{place}: turn is {turn!r}; {expected_form}")
    if type(sample) is not int or sample < 0:
        raise ConfigError(f"{place}: sample is {sample!r}; {expected_form}")
    if type(step) is not int or step < 0:
        raise ConfigError(
            f"{place}: step is {step!r}; {expected_form}; further answers of a turn have a step"
            " from 1"
        )
    if not isinstance(content, str):
        raise ConfigError(f"{place}: content is a {type(content).__name__}; {expected_form}")
    return (
        (*rubric, problem_id, turn, sample, *_step(step)),
        valid_unicode(content),
        _calls(record, place),
    )


def _step(number: int) -> tuple[int, ...]:
    return (number,) if number else ()


def _calls(record: Mapping[str, Any], place: str) -> tuple[ToolCall, ...]:
    try:
        return tuple(ToolCall.model_validate(call) for call in record.get("calls", ()))
    except (TypeError, ValueError):
        raise ConfigError(
            f'{place}: calls must be a list of {{"call_id": text, "name": text,'
            ' "arguments": JSON as text}'
        ) from None


def _rubric(record: Mapping[str, Any], place: str) -> tuple[str, ...]:
    """Return (`BENCHMARK.RUBRIC`,) for a judge's line, or () for another."""
    if "rubric" not in record:
        return ()
    benchmark, rubric = record.get("benchmark"), record["rubric"]
    if not isinstance(benchmark, str) or not isinstance(rubric, str) or not benchmark or not rubric:
        raise ConfigError(
            f"{place}: a judge's line needs the texts benchmark and rubric, not {benchmark!r}"
            f" and {rubric!r}"
        )
    return (f"{benchmark}.{rubric}",)


def _key_text(key: AnswerKey) -> str:
    if len(key) == 1:
        return f"prompt {key[0]}"
    rubric = f"rubric {key[0]}, " if isinstance(key[1], str) else ""
    problem_id, turn, sample, *step = key[bool(rubric) :]
    return f"{rubric}problem {problem_id!r}, turn {turn}, sample {sample}" + "".join(
        f", step {number}" for number in step
    )


def write_recording(path: Path, answers: Iterable[RecordedAnswer]) -> int:
    """Write a recording atomically (temporary file, then rename). `.gz` names are compressed.

    Equal answers give equal bytes. Return the number of answers written.

    Raises:
        ConfigError: A recording cannot contain an answer, or a turn has two. Nothing is written.
        UsageError: The file cannot be written.
    """
    keys: set[AnswerKey] = set()
    lines: list[bytes] = []
    for number, answer in enumerate(answers, start=1):
        line = json.dumps(answer.line, ensure_ascii=False).encode()
        key, *_ = _answer(line, f"answer {number} for {path}")
        if key in keys:
            raise ConfigError(f"answer {number} for {path}: a second answer for {_key_text(key)}")
        keys.add(key)
        lines.append(line + b"\n")
    data = b"".join(lines)
    replace_file(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return len(lines)


@dataclass(frozen=True)
class RecordedModel:
    """Model that answers from a recording, without a network. Equal contents give equal answers."""

    identity: ModelIdentity
    recording: Recording

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the recorded answer, whatever the text of the conversation is.

        An answer may be recorded for one dialog of a problem, by the dialog's id, or for all of
        them.

        Raises:
            AnswerMissing: The recording has no answer for this problem, turn, sample and number.
        """
        answers = self.recording.answers
        rubric = (request.rubric,) if request.rubric else ()
        place = (request.turn, request.sample, *_step(request.call_index))
        of_problem, of_dialog = (
            (*rubric, name, *place) for name in (request.problem_id, request.dialog_id)
        )
        keys = (
            of_dialog,
            of_problem,
            *([(text_digest(prompt_text(request.messages)),)] if rubric else []),
        )
        key = next((key for key in keys if key in answers), None)
        if key is None:
            raise AnswerMissing(
                f"recording {self.identity.name!r} has no answer for {_key_text(of_problem)}"
            )
        calls = self.recording.calls.get(key, ())
        return Completion(
            content=answers[key],
            finish_reason="tool_calls" if calls else "stop",
            n_calls=0,
            calls=calls,
        )

    async def aclose(self) -> None:
        """Do nothing, since there is nothing to close."""


@dataclass(frozen=True)
class ControlModel:
    """Model that answers from a function, without a network. See `ChatModel`."""

    identity: ModelIdentity
    answer: Callable[[str, int], str | None]
    """Returns the answer for (problem id, 1-based round). None if the data have no reference."""

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request. See `ChatModel.complete`.

        Raises:
            ReferenceMissing: The data have no reference answer for this turn.
        """
        content = self.answer(request.problem_id, request.turn)
        if content is None:
            raise ReferenceMissing(
                f"{self.identity.label}: the data have no reference answer for problem"
                f" {request.problem_id!r}, turn {request.turn}"
            )
        return Completion(content=content, finish_reason="stop", n_calls=0)

    async def aclose(self) -> None:
        """Do nothing, since there is nothing to close."""
