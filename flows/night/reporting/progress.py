"""Live progress of a night: stage, episodes done and owed, turns, tokens and their rate, time that went by and is left."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from schemas.night.work import StageTime
from tasks.driver.repeating import repeating
from tasks.driver.signals import heed_signals
from tasks.storage.clock import utc_now

_MINUTES_FROM_S = 100
"""Less time left is said in seconds."""


class Line:
    """The stage that one run is in, and what was done of it."""

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
        """What a log was told last."""
        self.noted = ""
        """What the stage waits for."""
        self.read_state: Callable[[], str] = str
        """Returns what else there is to say of the stage now."""
        self.input_tokens = self.simulator_input_tokens = self.simulator_output_tokens = 0
        self.prices: Sequence[tuple[float, float] | None] = ()
        """USD per million input and output tokens of the subject, then of the simulator; empty where no cost is shown."""

    def add(self, progress: Mapping[str, Any]) -> None:
        """Count what a worker process did."""
        self.episodes += progress["episodes"]
        self.faults += progress["faults"]
        self.turns += progress["turns"]
        self.output_tokens += progress["output_tokens"]
        self.programs += progress["programs"]
        self.input_tokens += progress.get("input_tokens", 0)
        self.simulator_input_tokens += progress.get("simulator_input_tokens", 0)
        self.simulator_output_tokens += progress.get("simulator_output_tokens", 0)
        self.images += progress.get("images", 0)
        self.pulls += progress.get("pulls", 0)
        self.image_mb += progress.get("image_mb", 0)
        self.reported_at = time.monotonic()

    def describe(self) -> str:
        """The stage in one line."""
        parts = [f"{self.title}  {self.stage}"]
        if self.total:
            parts.append(f"{self.episodes}/{self.total} {self.unit}")
        if self.faults:
            parts.append(f"{self.faults} ended by faults (tried again)")
        if self.turns:
            parts.append(f"{self.turns} turns")
        if self.output_tokens:
            rate = self.rate(self.output_tokens)
            parts.append(f"{self.output_tokens} tokens, {rate:.{0 if rate >= 10 else 1}f} a second")
        if self.programs:
            parts.append(f"{self.programs} programs")
        if self.images or self.pulls:
            under_way = f", {self.pulls} on the way" if self.pulls else ""
            parts.append(f"images: {self.images} pulled{under_way}, {self.image_mb} MB")
        parts += [text for text in (self.noted, self.read_state()) if text]
        return " · ".join(parts)

    def rate(self, amount: int) -> float:
        """Return an amount of the stage per second, up to the last report."""
        return amount / max(self.reported_at - self.started, 0.001)

    def usd(self) -> float | None:
        """Return what the answers of this stage cost so far; None where a price is unknown or nothing has one."""
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
        """Return which share of the stage is done, by episodes or by turns; None where neither is counted."""
        shares = [
            done / total
            for done, total in ((self.episodes, self.total), (self.turns, self.total_turns))
            if total
        ]
        return min(1.0, max(shares)) if shares else None

    def seconds_left(self) -> float | None:
        """Return how long the rest of the stage takes at its rate so far; None where that is not known, or nearly nothing."""
        share = self.share_done()
        if share is None or not 0 < share < 1:
            return None
        left_s = (self.reported_at - self.started) / share - (time.monotonic() - self.started)
        return left_s if left_s >= 1 else None

    def time_left(self) -> str:
        """Return how long the rest of the stage takes, to be written behind the time that went by; empty if not known."""
        left_s = self.seconds_left()
        return "" if left_s is None else f", about {duration_text(left_s)} left"


def duration_text(seconds: float) -> str:
    """Return a time in seconds or minutes."""
    return f"{seconds:.0f} s" if seconds < _MINUTES_FROM_S else f"{seconds / 60:.0f} min"


class Board:
    """Where progress goes. This one keeps counts and shows nothing: the base of the live board and of plain lines.

    Each thread has a line: runs that go side by side have one each, and what goes one after another follows in one.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._lines: dict[int, Line] = {}
        self._latest = Line()
        self._runs: dict[int, str] = {}
        """Thread -> run that goes in it."""
        self._spent: list[tuple[Line, float]] = []
        """Stages that are over, with their seconds."""

    def stage(self, title: str, stage: str, total: int = 0, unit: str = "episodes") -> None:
        """A stage of a run begins; so many units are to be done in it (0: not counted). Ends here if a signal asked for it."""
        heed_signals()
        with self.lock:
            self._leave()
            self._latest = self._lines[threading.get_ident()] = Line(
                title, stage, total, unit, self._runs.get(threading.get_ident(), "")
            )
            self.refresh(self._latest)

    @contextmanager
    def following(self, run_id: str) -> Iterator[None]:
        """In the block this thread's stages are of this run, and what workers report of it belongs to them."""
        with self.lock:
            self._runs[threading.get_ident()] = run_id
        try:
            yield
        finally:
            self.end()

    def end(self) -> None:
        """This thread's run, or what else it was at, is over."""
        with self.lock:
            self._leave()
            self._runs.pop(threading.get_ident(), None)

    def _leave(self) -> None:
        line = self._lines.pop(threading.get_ident(), None)
        if line is not None:
            self.left(line)
            self._spent.append((line, time.monotonic() - line.started))

    def times(self, night_id: str) -> list[StageTime]:
        """How long each stage took that is over, in the order in which they ended."""
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
        """A stage is over."""

    def _own(self) -> Line:
        return self._lines.get(threading.get_ident(), self._latest)

    def expect(self, turns: int) -> None:
        """About as many turns are to be taken in the stage under way: episodes that go on side by side end late, and together."""
        self._own().total_turns = turns

    def price(self, prices: Sequence[tuple[float, float] | None]) -> None:
        """Show the cost of this thread's stage, by the prices of the subject and, where there is one, of the simulator."""
        self._own().prices = prices

    def report(self, progress: Mapping[str, Any]) -> None:
        """A worker process did something of the stage under way of some run."""
        run_id = progress.get("run_id", "").rpartition(" ")[2]
        with self.lock:
            line = next(
                (one for one in self._lines.values() if run_id and one.run_id == run_id),
                self._latest,
            )
            if progress["stage"] == line.stage:
                line.add(progress)
                self.refresh(line)

    def note(self, text: str) -> None:
        """What this thread's stage waits for, or an empty text when it goes on. Ends here if a signal asked for it."""
        heed_signals()
        with self.lock:
            line = self._own()
            line.noted = text
            self.refresh(line)

    def show_state(self, read_state: Callable[[], str]) -> None:
        """Show a text beside the counts of this thread's stage, read anew every second. It must be quick and must not fail."""
        self._own().read_state = read_state

    def done(self, episodes: int) -> None:
        """The stage is over: what workers did not report in time is known now."""
        with self.lock:
            line = self._own()
            line.episodes = episodes
            self.refresh(line)

    def describe(self) -> str:
        """The stage of this thread in one line."""
        return self._own().describe()

    def time_left(self) -> str:
        """See `Line.time_left`."""
        return self._own().time_left()

    def refresh(self, line: Line) -> None:
        """Show the new state of a line."""

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show progress for the time of the block."""
        yield

    @contextmanager
    def looking(self, every_s: float) -> Iterator[None]:
        """Refresh all lines again and again within the block: what they show may change without a report."""

        def look() -> bool:
            with self.lock:
                for line in self._lines.values():
                    self.refresh(line)
            return True

        with repeating(look, every_s, "parley-lines"):
            yield


class LineBoard(Board):
    """One line for each stage, and one every ten seconds of a long one in which something happened: for logs and pipes."""

    def __init__(self, *, every_s: float = 10.0) -> None:
        super().__init__()
        self._every_s = every_s
        self.started = time.monotonic()

    def refresh(self, line: Line) -> None:
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
        """What happened just after a line is shown, too, and not only when something happens again: that may take minutes."""
        with self.looking(self._every_s / 10):
            yield


def board_for_terminal(*, quiet: bool = False) -> Board:
    """Live on a terminal, lines elsewhere, nothing when quiet."""
    if quiet:
        return Board()
    if not sys.stderr.isatty():
        return LineBoard()
    from flows.night.reporting.live_lines import LiveBoard

    return LiveBoard()
