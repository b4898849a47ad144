"""Turns of unfinished episodes, kept as they are said.

A worker process appends to segments of its own, one `write()` for each message, before it asks for the next one. A line holds
episode, attempt and messages. Or it holds answers to a message that is not ready, because a program is about to run on them.
When an episode is taken up again, the first line of the new attempt repeats its messages so far. So the highest attempt's
messages always stand alone, and late messages of a superseded worker are ignored. Late answers of that worker are used: the new
attempt would ask for the same answers again.
"""

import errno
import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson
from pydantic import BaseModel

from schemas.dialog import Role
from schemas.episode import Step
from tasks.language.chat_model import Completion
from tasks.storage.disk import naming_full_disk


class JournalWriter:
    """One append-only segment. Safe to use from several threads; opened at the first write."""

    def __init__(self, folder: Path, *, fsync: bool = False) -> None:
        self._folder = folder
        self._fsync = fsync
        self._descriptor: int | None = None
        self._lock = threading.Lock()

    def append(self, episode_id: str, attempt: int, steps: Sequence[Step]) -> None:
        """Keep messages of an episode, in one write.

        Raises:
            DiskFull: no room. What was written before stays readable.
            OSError: no right to write.
        """
        self._write(_line({"episode_id": episode_id, "attempt": attempt, "steps": [_dump(s) for s in steps]}))

    def append_answers(self, episode_id: str, attempt: int, answers: Mapping[str, Completion]) -> None:
        """Keep answers that are in no message yet, by the key of their request.

        Raises:
            DiskFull: as `append`.
            OSError: as `append`.
        """
        said = {key: asdict(answer) for key, answer in answers.items()}
        self._write(_line({"episode_id": episode_id, "attempt": attempt, "steps": [], "answers": said}))

    def _write(self, line: bytes) -> None:
        with self._lock, naming_full_disk("a turn", self._folder, len(line)):
            if self._descriptor is None:
                self._descriptor = self._open_segment()
            written = os.write(self._descriptor, line)
            if written != len(line):
                # a torn line would spoil the next one, which may find room again
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder))
            if self._fsync:
                os.fsync(self._descriptor)

    def _open_segment(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        number = 0
        while True:
            path = self._folder / f"{os.getpid()}-{number}.jsonl"
            try:
                return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
            except FileExistsError:
                number += 1

    def close(self) -> None:
        """Close the segment; a later write opens another one."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def _line(row: dict[str, object]) -> bytes:
    try:
        return orjson.dumps(row, default=_dump) + b"\n"
    except TypeError:  # a lone surrogate, which UTF-8 cannot hold
        return json.dumps(row, default=_dump, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _dump(row: BaseModel) -> dict[str, object]:
    return {name: value for name, value in row.__dict__.items() if value is not None}


@dataclass(frozen=True)
class Unfinished:
    """The kept part of an episode that did not finish."""

    attempt: int
    steps: tuple[Step, ...] = ()
    answers: tuple[tuple[int, str, Completion], ...] = ()
    """(attempt, key of the request, answer) of answers that came before their message was ready."""


@dataclass
class _Collected:
    attempt: int = 0
    steps: list[Step] = field(default_factory=list[Step])
    answers: list[tuple[int, str, Completion]] = field(default_factory=list[tuple[int, str, Completion]])


def read_journal(folder: Path, only: Iterable[str] | None = None) -> Mapping[str, Unfinished]:
    """All unfinished episodes of a run's journal: their highest attempt and its messages, in order.

    Lines torn by a kill or a full disk are left out, and so are repeated messages and messages behind a gap.
    """
    wanted = None if only is None else set(only)
    collected: dict[str, _Collected] = {}
    for segment in sorted(folder.glob("*.jsonl")):
        for line in segment.read_bytes().splitlines():
            try:
                row = orjson.loads(line)
                episode_id, attempt = row["episode_id"], row["attempt"]
                if wanted is not None and episode_id not in wanted:
                    continue
                steps = [Step.model_validate(step) for step in row["steps"]]
                answers = [(attempt, key, Completion(**answer)) for key, answer in row.get("answers", {}).items()]
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):  # a torn line
                continue
            entry = collected.setdefault(episode_id, _Collected())
            entry.answers.extend(answers)
            if attempt > entry.attempt:
                entry.attempt, entry.steps = attempt, steps
            elif attempt == entry.attempt:
                entry.steps.extend(steps)
    return {key: Unfinished(entry.attempt, _in_order(entry.steps), tuple(entry.answers)) for key, entry in collected.items()}


def _in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    kept: list[Step] = []
    known: set[tuple[int, Role]] = set()
    for step in steps:
        if (step.turn, step.role) in known:
            continue
        if kept and step.turn not in (kept[-1].turn, kept[-1].turn + 1):
            break
        kept.append(step)
        known.add((step.turn, step.role))
    return tuple(kept)


def remove_journal(folder: Path) -> None:
    """Remove a run's segments, once Parquet holds their content."""
    if folder.is_dir():
        for path in folder.glob("*.jsonl"):
            path.unlink(missing_ok=True)
        folder.rmdir()
