"""Recordings: answers given before, as JSONL (`.gz` allowed), one `{"problem_id", "turn", "sample", "content"}` a line.

A recording makes published runs of others, and our own, repeatable without the model. Further keys are allowed and ignored.
"""

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from schemas.content_id import ID_LENGTH
from schemas.errors import AnswerMissing, ConfigError, UsageError
from schemas.run import ModelIdentity
from tasks.language.chat_model import ChatRequest, Completion
from tasks.language.wire import valid_unicode
from tasks.storage.replaced_file import replace_file

AnswerKey = tuple[str, int, int]
"""(id of a problem, or of one of its dialogs; round from 1; sample from 0)."""


@dataclass(frozen=True)
class RecordedAnswer:
    """One line of a recording."""

    problem_id: str
    """Id of the problem, or of one of its dialogs where it has several."""
    turn: int
    content: str
    sample: int = 0


@dataclass(frozen=True)
class Recording:
    digest: str
    """Digest of the uncompressed content: the same for `x.jsonl` and `x.jsonl.gz`."""
    answers: Mapping[AnswerKey, str]


def recording_name(path: Path) -> str:
    """File name without `.jsonl` or `.jsonl.gz`."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def load_recording(path: Path) -> Recording:
    """Read a recording. A process reads each file once, until it changes.

    Raises:
        UsageError: there is no such file, or it cannot be read.
        ConfigError: a line that is no answer, or a second answer for the same turn; names file and line.
    """
    try:
        facts = path.stat()
        return _load(path.resolve(), facts.st_mtime_ns, facts.st_size)
    except FileNotFoundError:
        raise UsageError(f"recording {path}: no such file; `parley import` and `parley export recording` write one") from None
    except (OSError, EOFError) as error:
        raise UsageError(f"recording {path}: cannot be read ({type(error).__name__}: {error})") from None


@lru_cache(maxsize=8)
def _load(path: Path, mtime_ns: int, size: int) -> Recording:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    answers: dict[AnswerKey, str] = {}
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        key, content = _answer(line, f"recording {path}, line {number}")
        if key in answers:
            raise ConfigError(f"recording {path}, line {number}: a second answer for {_said(key)}; keep one of them")
        answers[key] = content
    if not answers:
        raise ConfigError(f"recording {path}: holds no answers")
    return Recording(digest=hashlib.sha256(data).hexdigest()[:ID_LENGTH], answers=answers)


def _answer(line: bytes, place: str) -> tuple[AnswerKey, str]:
    try:
        record: Any = json.loads(line)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{place}: is not JSON in UTF-8 ({error})") from None
    wanted = 'one answer a line is {"problem_id": text, "turn": 1.., "sample": 0.., "content": text}'
    if not isinstance(record, dict):
        raise ConfigError(f"{place}: is a {type(record).__name__}, not an object; {wanted}")
    problem_id, turn, content = record.get("problem_id"), record.get("turn"), record.get("content")
    sample = record.get("sample", 0)
    if not isinstance(problem_id, str) or not problem_id:
        raise ConfigError(f"{place}: problem_id is {problem_id!r}; {wanted}")
    if type(turn) is not int or turn < 1:
        raise ConfigError(f"{place}: turn is {turn!r}; {wanted}")
    if type(sample) is not int or sample < 0:
        raise ConfigError(f"{place}: sample is {sample!r}; {wanted}")
    if not isinstance(content, str):
        raise ConfigError(f"{place}: content is a {type(content).__name__}; {wanted}")
    return (problem_id, turn, sample), valid_unicode(content)


def _said(key: AnswerKey) -> str:
    return f"problem {key[0]!r}, turn {key[1]}, sample {key[2]}"


def write_recording(path: Path, answers: Iterable[RecordedAnswer]) -> int:
    """Write a recording in one step (temporary file, then rename), compressed where the name ends in `.gz`.

    Equal answers give equal bytes. Returns the number of answers written.

    Raises:
        ConfigError: an answer that no recording can hold, or a second one for the same turn; nothing is written then.
        UsageError: the file cannot be written.
    """
    seen: set[AnswerKey] = set()
    lines: list[bytes] = []
    for number, answer in enumerate(answers, start=1):
        record = {"problem_id": answer.problem_id, "turn": answer.turn, "sample": answer.sample, "content": answer.content}
        line = json.dumps(record | {"content": valid_unicode(answer.content)}, ensure_ascii=False).encode()
        key, _ = _answer(line, f"answer {number} for {path}")
        if key in seen:
            raise ConfigError(f"answer {number} for {path}: a second answer for {_said(key)}")
        seen.add(key)
        lines.append(line + b"\n")
    data = b"".join(lines)
    replace_file(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return len(lines)


@dataclass(frozen=True)
class RecordedModel:
    identity: ModelIdentity
    recording: Recording

    async def complete(self, request: ChatRequest) -> Completion:
        """The recorded answer; the conversation's text is not looked at.

        An answer may be recorded for one dialog of a problem, by the dialog's id, or for all of them.

        Raises:
            AnswerMissing: the recording has none for this problem, turn and sample.
        """
        answers, key = self.recording.answers, (request.problem_id, request.turn, request.sample)
        content = answers.get((request.dialog_id, request.turn, request.sample), answers.get(key))
        if content is None:
            raise AnswerMissing(f"recording {self.identity.name!r} has no answer for {_said(key)}")
        return Completion(content=content, finish_reason="stop", n_calls=0)

    async def aclose(self) -> None:
        """Nothing to close."""
        pass
