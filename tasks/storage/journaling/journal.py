"""Steps of unfinished episodes, kept as they are taken.

A worker process appends to segments of its own, one `write()` for each step, before the next one is asked for. A line holds
episode, attempt, steps, and the first step's place in the episode. Or it holds answers to a step that is not ready, because a
program is about to run on them. When an episode is taken up again, the first line of the new attempt repeats its steps so far: a
journal's size is that of its steps, and once more for each time that they were taken up. So the highest attempt's steps always
stand alone, and late steps of a superseded worker are ignored. Late answers of that worker are used: the new attempt would ask
for the same answers again.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.dialog import Role
from schemas.episode import Step, ToolCall
from tasks.language.chat_model import Completion
from tasks.storage.journaling.segments import read_segments
from tasks.storage.journaling.shipping import open_segment
from tasks.storage.journaling.tries import HeldShard


class JournalWriter:
    """Append-only segments. Safe to use from several threads; opened at the first write."""

    def __init__(self, folder: Path, *, fsync: bool = False) -> None:
        self._segment = open_segment(folder, "a turn", fsync=fsync)

    def append(
        self,
        episode_id: str,
        attempt: int,
        at: int,
        steps: Sequence[Step],
        hold: HeldShard | None = None,
    ) -> None:
        """Keep steps of an episode, in one write.

        Args:
            at: place of the first of them in the episode, from 0.
            hold: the shard that they are kept for.

        Raises:
            DiskFull: no room. Rows that were written before stay readable.
            OSError: no right to write.
            ServerUnavailable: the store takes no segments.
        """
        row = {"episode_id": episode_id, "attempt": attempt, "at": at, "steps": list(steps)}
        self._segment.write(row, hold=hold)

    def append_answers(
        self,
        episode_id: str,
        attempt: int,
        answers: Mapping[str, Completion],
        hold: HeldShard | None = None,
    ) -> None:
        """Keep answers that are in no step yet, by the key of their request.

        Raises:
            DiskFull: as `append`.
            OSError: as `append`.
        """
        row = {"episode_id": episode_id, "attempt": attempt, "steps": [], "answers": dict(answers)}
        self._segment.write(row, hold=hold)

    def flush(self) -> None:
        """Have what was written so far where the driver sees it."""
        self._segment.flush()

    def close(self) -> None:
        """Close the segment; a later write opens another one."""
        self._segment.close()


@dataclass(frozen=True)
class Unfinished:
    """The kept part of an episode that did not finish."""

    attempt: int
    steps: tuple[Step, ...] = ()
    answers: tuple[tuple[int, str, Completion], ...] = ()
    """(attempt, key of the request, answer) of answers that came before their step was ready."""


@dataclass
class _Collected:
    attempt: int = 0
    steps: list[tuple[int | None, Step]] = field(default_factory=list[tuple[int | None, Step]])
    """(place in the episode, step); lines of an older Parley name no place."""
    answers: list[tuple[int, str, Completion]] = field(
        default_factory=list[tuple[int, str, Completion]]
    )


def read_journal(folder: Path, only: Iterable[str] | None = None) -> Mapping[str, Unfinished]:
    """All unfinished episodes of a run's journal: their highest attempt and its steps, in order.

    Lines torn by a kill or a full disk are left out, and so are repeated steps and steps behind a gap. One line at a time is in
    memory, besides what is kept.
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
        except (KeyError, TypeError, ValueError):  # no row of a journal
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
    """An answer as a segment holds it."""
    calls = tuple(ToolCall.model_validate(call) for call in answer.get("calls", ()))
    return Completion(**{**answer, "calls": calls, "adapted": tuple(answer.get("adapted", ()))})


def _in_order(found: Sequence[tuple[int | None, Step]]) -> tuple[Step, ...]:
    """The steps up to the first gap; the first of several at one place counts."""
    placed: dict[int, Step] = {}
    for at, step in found:
        if at is None:
            return _older_in_order([step for _, step in found])
        placed.setdefault(at, step)
    return tuple(placed[at] for at in itertools.takewhile(placed.__contains__, itertools.count()))


def _older_in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Of lines without places, which held messages alone: one for each turn and role."""
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
