"""Journal: the steps of unfinished episodes, stored one by one.

Each worker process appends to separate segments, with one `write()` for each step, before it
requests the next step. A line contains episode, attempt, steps, and the position of the first step
in the episode. Other lines contain answers whose step is not complete, because a program will run
on them.

When an episode is resumed, the first line of the new attempt repeats its earlier steps. So the
steps of the highest attempt are complete, and late steps of a superseded worker are
ignored. Late answers of such a worker are used: the new attempt would request the same answers.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.dialog import Role
from schemas.episode import Step, ToolCall
from tasks.language.chat_model import Completion
from tasks.storage.journaling.leases import ShardLease
from tasks.storage.journaling.segments import read_segments
from tasks.storage.journaling.shipping import open_segment


class JournalWriter:
    """Writer of a journal. Several threads may use it. The first write creates its segment."""

    def __init__(self, folder: Path, *, fsync: bool = False) -> None:
        self._segment = open_segment(folder, "a turn", fsync=fsync)

    def append(
        self,
        episode_id: str,
        attempt: int,
        at: int,
        steps: Sequence[Step],
        hold: ShardLease | None = None,
    ) -> None:
        """Write steps of an episode, in one write.

        Args:
            episode_id: episode of the steps.
            attempt: 1-based number of the attempt.
            at: 0-based position of the first step in the episode.
            steps: steps to write.
            hold: lease of the shard that the steps belong to.

        Raises:
            DiskFull: the disk is full. Earlier rows stay readable.
            OSError: the process may not write.
            ServerUnavailable: the object store does not accept segments.
        """
        row = {"episode_id": episode_id, "attempt": attempt, "at": at, "steps": list(steps)}
        self._segment.write(row, hold=hold)

    def append_answers(
        self,
        episode_id: str,
        attempt: int,
        answers: Mapping[str, Completion],
        hold: ShardLease | None = None,
    ) -> None:
        """Write answers that are not in a step yet, by the key of their request.

        Raises the errors of `append`.
        """
        row = {"episode_id": episode_id, "attempt": attempt, "steps": [], "answers": dict(answers)}
        self._segment.write(row, hold=hold)

    def flush(self) -> None:
        """Make all written rows visible to the driver."""
        self._segment.flush()

    def close(self) -> None:
        """Close the segment. A later write opens another one."""
        self._segment.close()


@dataclass(frozen=True)
class Unfinished:
    """Stored part of an unfinished episode: its steps, and answers that are in no step."""

    attempt: int
    steps: tuple[Step, ...] = ()
    answers: tuple[tuple[int, str, Completion], ...] = ()
    """Answers whose step is not complete: (attempt, key of the request, answer)."""


@dataclass
class _Collected:
    attempt: int = 0
    steps: list[tuple[int | None, Step]] = field(default_factory=list[tuple[int | None, Step]])
    """Steps with their positions in the episode. Lines of older releases have no position."""
    answers: list[tuple[int, str, Completion]] = field(
        default_factory=list[tuple[int, str, Completion]]
    )


def read_journal(folder: Path, only: Iterable[str] | None = None) -> Mapping[str, Unfinished]:
    """Return the highest attempt of each episode in a run's journal, with its steps in order.

    Lines torn by a kill or a full disk are left out, and so are repeated steps and steps after a
    gap. Besides the result, only one line at a time is in memory.

    Args:
        folder: folder of the journal.
        only: episodes to read; None for all.
    """
    wanted = None if only is None else set(only)
    collected: dict[str, _Collected] = {}
    for row in read_segments(folder):
        try:
            episode_id, attempt = row["episode_id"], row["attempt"]
            if wanted is not None and episode_id not in wanted:
                continue
            steps = _steps(row)
            answers = [
                (attempt, key, read_completion(answer))
                for key, answer in row.get("answers", {}).items()
            ]
        except (KeyError, TypeError, ValueError):  # not a row of a journal
            continue
        entry = collected.setdefault(episode_id, _Collected())
        entry.answers.extend(answers)
        if attempt > entry.attempt:
            entry.attempt, entry.steps = attempt, steps
        elif attempt == entry.attempt:
            entry.steps.extend(steps)
    return {
        key: Unfinished(entry.attempt, _in_order(entry.steps), tuple(entry.answers))
        for key, entry in collected.items()
    }


def _steps(row: Mapping[str, Any]) -> list[tuple[int | None, Step]]:
    at: int | None = row.get("at")
    return [
        (None if at is None else at + n, Step.model_validate(step))
        for n, step in enumerate(row["steps"])
    ]


def read_completion(answer: Mapping[str, Any]) -> Completion:
    """Return the answer that a row of a segment contains."""
    calls = tuple(ToolCall.model_validate(call) for call in answer.get("calls", ()))
    return Completion(**{**answer, "calls": calls, "adapted": tuple(answer.get("adapted", ()))})


def _in_order(rows: Sequence[tuple[int | None, Step]]) -> tuple[Step, ...]:
    """Return the steps up to the first gap. The first step of each position counts."""
    by_position: dict[int, Step] = {}
    for at, step in rows:
        if at is None:
            return _older_in_order([step for _, step in rows])
        by_position.setdefault(at, step)
    positions = itertools.takewhile(by_position.__contains__, itertools.count())
    return tuple(by_position[at] for at in positions)


def _older_in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps of lines without positions: one message for each turn and role."""
    messages: list[Step] = []
    keys: set[tuple[int, Role]] = set()
    for step in steps:
        if (step.turn, step.role) in keys:
            continue
        if messages and step.turn not in (messages[-1].turn, messages[-1].turn + 1):
            break
        messages.append(step)
        keys.add((step.turn, step.role))
    return tuple(messages)
