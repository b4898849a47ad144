"""Live progress of a night: stage, episodes done and owed, turns, tokens and their rate, time that went by and is left."""

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tasks.driver.signals import heed_signals

_MINUTES_FROM_S = 100
"""Less time left is said in seconds."""


class Board:
    """Where progress goes. This one keeps counts and shows nothing: the base of the live board and of plain lines."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.title = ""
        self.stage_name = ""
        self._begin(total=0)

    def _begin(self, total: int) -> None:
        self.total, self.total_turns = total, 0
        self.episodes = self.faults = self.turns = self.output_tokens = self.programs = 0
        self.stage_started = self.reported_at = time.monotonic()

    def stage(self, title: str, stage: str, total: int = 0) -> None:
        """A stage of a run begins; `total` episodes are to be done in it (0: not counted). Ends here if a signal asked for it."""
        heed_signals()
        with self.lock:
            self.title, self.stage_name = title, stage
            self._begin(total)
        self.refresh()

    def expect(self, turns: int) -> None:
        """About as many turns are to be taken in the stage under way: episodes that go on side by side end late, and together."""
        self.total_turns = turns

    def report(self, progress: Mapping[str, Any]) -> None:
        """A worker process did something of the stage under way."""
        if progress["stage"] != self.stage_name:
            return
        with self.lock:
            self.episodes += progress["episodes"]
            self.faults += progress["faults"]
            self.turns += progress["turns"]
            self.output_tokens += progress["output_tokens"]
            self.programs += progress["programs"]
            self.reported_at = time.monotonic()
        self.refresh()

    def done(self, episodes: int) -> None:
        """The stage is over: what workers did not report in time is known now."""
        with self.lock:
            self.episodes = episodes
        self.refresh()

    def describe(self) -> str:
        """The stage under way in one line."""
        parts = [f"{self.title}  {self.stage_name}"]
        if self.total:
            parts.append(f"{self.episodes}/{self.total} episodes")
        if self.faults:
            parts.append(f"{self.faults} ended by faults (tried again)")
        if self.turns:
            parts.append(f"{self.turns} turns")
        if self.output_tokens:
            rate = self.output_tokens / max(self.reported_at - self.stage_started, 0.001)
            parts.append(f"{self.output_tokens} tokens, {rate:.{0 if rate >= 10 else 1}f} a second")
        if self.programs:
            parts.append(f"{self.programs} programs")
        return " · ".join(parts)

    def time_left(self) -> str:
        """How long the rest of the stage takes if it goes on like this, to be written behind the time that went by."""
        shares = [done / total for done, total in ((self.episodes, self.total), (self.turns, self.total_turns)) if total]
        share = max(shares, default=0.0)
        if not 0 < share < 1:
            return ""
        left_s = (self.reported_at - self.stage_started) / share - (time.monotonic() - self.stage_started)
        if left_s < 1:
            return ""
        return f", about {left_s:.0f} s left" if left_s < _MINUTES_FROM_S else f", about {left_s / 60:.0f} min left"

    def refresh(self) -> None:
        """Show the new state."""

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show progress for the time of the block."""
        yield


class LineBoard(Board):
    """One line for each stage, and one every ten seconds of a long one in which something happened: for logs and pipes."""

    def __init__(self, *, every_s: float = 10.0) -> None:
        super().__init__()
        self._every_s = every_s
        self._shown = ("", "")
        self._shown_text = ""
        self._shown_at = 0.0
        self.started = time.monotonic()

    def refresh(self) -> None:
        with self.lock:
            key, now, text = (self.title, self.stage_name), time.monotonic(), self.describe()
            if key != self._shown or (now - self._shown_at > self._every_s and text != self._shown_text):
                self._shown, self._shown_at, self._shown_text = key, now, text
                print(f"{text} · {now - self.started:.0f} s{self.time_left()}", file=sys.stderr, flush=True)

    @contextmanager
    def live(self) -> Iterator[None]:
        """What happened just after a line is shown, too, and not only when something happens again: that may take minutes."""
        over = threading.Event()

        def look() -> None:
            while not over.wait(self._every_s / 10):
                if self.stage_name:
                    self.refresh()

        looker = threading.Thread(target=look, name="parley-lines", daemon=True)
        looker.start()
        try:
            yield
        finally:
            over.set()
            looker.join()


class LiveBoard(Board):
    """A line at the bottom of the terminal that moves; finished stages stay above it."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console

        self.console = Console(stderr=True)
        self._status: Any = None

    def stage(self, title: str, stage: str, total: int = 0) -> None:
        self._keep_finished()
        super().stage(title, stage, total)

    def _keep_finished(self) -> None:
        if self.stage_name and self._status is not None:
            from rich.markup import escape

            self.console.print(f"[green]✓[/] {escape(self.describe())} · {time.monotonic() - self.stage_started:.1f} s")

    @contextmanager
    def live(self) -> Iterator[None]:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        description, left = (TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[left]"))
        with Progress(SpinnerColumn(), description, TimeElapsedColumn(), left, console=self.console, transient=True) as progress:
            self._status = (progress, progress.add_task("starting", left=""))
            try:
                yield
            finally:
                self._keep_finished()
                self._status = None

    def refresh(self) -> None:
        if self._status is not None:
            progress, task_id = self._status
            progress.update(task_id, description=self.describe(), left=self.time_left().removeprefix(", "))


def board_for_terminal(*, quiet: bool = False) -> Board:
    """Live on a terminal, lines elsewhere, nothing when quiet."""
    if quiet:
        return Board()
    return LiveBoard() if sys.stderr.isatty() else LineBoard()
