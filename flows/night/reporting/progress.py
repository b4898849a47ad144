"""Live progress of a night: stage, episodes done and pending, turns, tokens, rates and times."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from schemas.lake.records import utc_now
from schemas.night.work import StageTime
from tasks.driver.signals import heed_signals, repeating

_MINUTES_FROM_S = 100
"""Times shorter than this number of seconds are shown in seconds."""


class Line:
    """Current stage of one run, with the work done in it."""

    def __init__(
        self,
        title: str = "",
        stage: str = "",
        total: int = 0,
        unit: str = "episodes",
        run_id: str = "",
    ) -> None:
        self.title, self.stage, self.total, self.unit, self.run_id = (
            title,
            stage,
            total,
            unit,
            run_id,
        )
        self.began_at = utc_now()
        self.total_turns = 0
        self.episodes = self.faults = self.turns = self.output_tokens = self.programs = 0
        self.images = self.pulls = self.image_mb = 0
        self.started = self.reported_at = time.monotonic()
        self.shown_text, self.shown_at = "", 0.0
        """Text that was last written to a log, and the time of that."""
        self.noted = ""
        """Reason why the stage waits, or ""."""
        self.read_state: Callable[[], str] = str
        """Function that returns additional text about the stage's current state."""
        self.input_tokens = self.simulator_input_tokens = self.simulator_output_tokens = 0
        self.prices: Sequence[tuple[float, float] | None] = ()
        """USD per million input and output tokens of the subject, then of the simulator.

        If empty, the cost is not shown.
        """

    def add(self, progress: Mapping[str, Any]) -> None:
        """Add the work that a worker process reports."""
        for name in progress.keys() & vars(self).keys() - {"run_id", "stage"}:
            setattr(self, name, getattr(self, name) + progress[name])
        self.reported_at = time.monotonic()

    def describe(self) -> str:
        """Return the stage in one line."""
        parts = [f"{self.title}  {self.stage}"]
        if self.total:
            # A worker's late report can arrive after `done`, which counts all episodes.
            parts.append(f"{min(self.episodes, self.total)}/{self.total} {self.unit}")
        if self.faults:
            parts.append(f"{self.faults} ended by faults (retried)")
        if self.turns:
            parts.append(f"{self.turns} turns")
        if self.output_tokens:
            rate = self.rate(self.output_tokens)
            parts.append(f"{self.output_tokens} tokens, {rate:.{0 if rate >= 10 else 1}f} a second")
        if self.programs:
            parts.append(f"{self.programs} programs")
        if self.images or self.pulls:
            in_progress = f", {self.pulls} in progress" if self.pulls else ""
            parts.append(f"images: {self.images} pulled{in_progress}, {self.image_mb} MB")
        parts += [text for text in (self.noted, self.read_state()) if text]
        return " · ".join(parts)

    def rate(self, amount: int) -> float:
        """Return `amount` divided by the seconds from the stage's start to the last report."""
        return amount / max(self.reported_at - self.started, 0.001)

    def usd(self) -> float | None:
        """Return the cost of this stage's answers so far.

        Return None if a price is unknown or no prices are set.
        """
        if not self.prices or None in self.prices:
            return None
        of_simulator = self.simulator_input_tokens, self.simulator_output_tokens
        of_subject = self.input_tokens - of_simulator[0], self.output_tokens - of_simulator[1]
        priced = zip(self.prices, (of_subject, of_simulator), strict=False)
        return sum(
            n * usd / 1e6
            for price, counts in priced
            for n, usd in zip(counts, price or (), strict=True)
        )

    def share_done(self) -> float | None:
        """Return the finished share of the stage, by episodes or turns.

        Return None if neither is counted.
        """
        shares = [
            done / total
            for done, total in ((self.episodes, self.total), (self.turns, self.total_turns))
            if total
        ]
        return min(1.0, max(shares)) if shares else None

    def seconds_left(self) -> float | None:
        """Return the seconds that the rest of the stage takes at its rate so far.

        Return None if they are unknown or below 1.
        """
        share = self.share_done()
        if share is None or not 0 < share < 1:
            return None
        left_s = (self.reported_at - self.started) / share - (time.monotonic() - self.started)
        return left_s if left_s >= 1 else None

    def time_left(self) -> str:
        """Return the time that the rest of the stage takes, as a suffix to the elapsed time.

        Return "" if unknown.
        """
        left_s = self.seconds_left()
        return "" if left_s is None else f", about {duration_text(left_s)} left"


def duration_text(seconds: float) -> str:
    """Return a time in seconds or minutes."""
    return f"{seconds:.0f} s" if seconds < _MINUTES_FROM_S else f"{seconds / 60:.0f} min"


class Board:
    """Progress of a night's stages.

    This base class counts and shows nothing. `LiveBoard` and `LineBoard` show lines.

    Each thread has one line. Parallel runs have one each, and consecutive stages of a thread reuse
    it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._lines: dict[int, Line] = {}
        self._latest = Line()
        self._runs: dict[int, str] = {}
        """Map from the number of a thread to the id of the run that it executes."""
        self._spent: list[tuple[Line, float]] = []
        """Finished stages, with their seconds."""

    def stage(self, title: str, stage: str, total: int = 0, unit: str = "episodes") -> None:
        """Begin a stage of a run, with `total` episodes or other units to do (0: not counted).

        If a signal asked the process to stop, raise its exception instead.
        """
        heed_signals()
        with self.lock:
            self._leave()
            self._latest = self._lines[threading.get_ident()] = Line(
                title, stage, total, unit, self._runs.get(threading.get_ident(), "")
            )
            self.refresh(self._latest)

    @contextmanager
    def interrupted(self, stage: str) -> Iterator[None]:
        """Show another stage of this thread's run during the block, and then this one again."""
        line = self._own_line()
        self.stage(line.title, stage)
        yield
        self.stage(line.title, line.stage, line.total, line.unit)
        self.expect(line.total_turns)
        self.price(line.prices)
        self.show_state(line.read_state)

    @contextmanager
    def following(self, run_id: str) -> Iterator[None]:
        """Count this thread's stages and workers' reports for this run during the block."""
        with self.lock:
            self._runs[threading.get_ident()] = run_id
        try:
            yield
        finally:
            self.end()

    def end(self) -> None:
        """End the run or the stage of this thread."""
        with self.lock:
            self._leave()
            self._runs.pop(threading.get_ident(), None)

    def _leave(self) -> None:
        line = self._lines.pop(threading.get_ident(), None)
        if line is not None:
            self.left(line)
            self._spent.append((line, time.monotonic() - line.started))

    def times(self, night_id: str) -> list[StageTime]:
        """Return the duration of each finished stage, in the order in which they ended."""
        with self.lock:
            return [
                StageTime(
                    night_id=night_id,
                    run_id=line.run_id,
                    title=line.title,
                    stage=line.stage,
                    started_at=line.began_at,
                    seconds=round(seconds, 3),
                )
                for line, seconds in self._spent
            ]

    def left(self, line: Line) -> None:
        """Show that a stage is over."""

    def _own_line(self) -> Line:
        return self._lines.get(threading.get_ident(), self._latest)

    def expect(self, turns: int) -> None:
        """Set the expected number of turns of the current stage.

        The share of finished turns then shows progress, since parallel episodes all end late.
        """
        self._own_line().total_turns = turns

    def price(self, prices: Sequence[tuple[float, float] | None]) -> None:
        """Show the cost of this thread's stage, by the subject's and the simulator's prices."""
        self._own_line().prices = prices

    def report(self, progress: Mapping[str, Any]) -> None:
        """Add a worker's report to the stage of the run that it names."""
        run_id = progress.get("run_id", "").rpartition(" ")[2]
        with self.lock:
            line = next(
                (line for line in self._lines.values() if run_id and line.run_id == run_id),
                self._latest,
            )
            if progress["stage"] == line.stage:
                line.add(progress)
                self.refresh(line)

    def note(self, text: str) -> None:
        """Set the reason why this thread's stage waits, or "" if it resumes.

        If a signal asked the process to stop, raise its exception instead.
        """
        heed_signals()
        with self.lock:
            line = self._own_line()
            line.noted = text
            self.refresh(line)

    def show_state(self, read_state: Callable[[], str]) -> None:
        """Show a text beside the counts of this thread's stage.

        `read_state` is called every second. It must be quick and must not fail.
        """
        self._own_line().read_state = read_state

    def done(self, episodes: int) -> None:
        """Set the final number of episodes of a stage.

        The workers' last reports may have arrived too late to be counted.
        """
        with self.lock:
            line = self._own_line()
            line.episodes = episodes
            self.refresh(line)

    def describe(self) -> str:
        """Return the stage of this thread in one line."""
        return self._own_line().describe()

    def time_left(self) -> str:
        """Return the time that the rest of this thread's stage takes. See `Line.time_left`."""
        return self._own_line().time_left()

    def refresh(self, line: Line) -> None:
        """Show the new state of a line."""

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show progress during the block."""
        yield

    @contextmanager
    def looking(self, every_s: float) -> Iterator[None]:
        """Refresh all lines periodically during the block.

        A line can change without a worker's report.
        """

        def look() -> bool:
            with self.lock:
                for line in self._lines.values():
                    self.refresh(line)
            return True

        with repeating(look, every_s, "parley-lines"):
            yield


class LineBoard(Board):
    """Progress as plain lines, for logs and pipes.

    It prints one line per stage, and one every ten seconds of a long stage that changes.
    """

    def __init__(self, *, every_s: float = 10.0) -> None:
        super().__init__()
        self._every_s = every_s
        self.started = time.monotonic()

    def refresh(self, line: Line) -> None:
        """Print the line if it is new or has changed since the last print."""
        with self.lock:
            now, text = time.monotonic(), line.describe()
            if not line.shown_at or (
                now - line.shown_at > self._every_s and text != line.shown_text
            ):
                line.shown_text, line.shown_at = text, now
                print(
                    f"{text} · {now - self.started:.0f} s{line.time_left()}",
                    file=sys.stderr,
                    flush=True,
                )

    @contextmanager
    def live(self) -> Iterator[None]:
        """Refresh lines during the block. Otherwise a change would wait for the next report."""
        with self.looking(self._every_s / 10):
            yield
