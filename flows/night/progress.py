"""Live progress of a night: stage, episodes done and owed, turns, tokens, elapsed."""

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tasks.driver.signals import heed_signals


class Board:
    """Where progress goes. This one keeps counts and shows nothing: the base of the live board and of plain lines."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.title = ""
        self.stage_name = ""
        self.total = 0
        self.episodes = self.faults = self.turns = self.output_tokens = self.programs = 0
        self.stage_started = time.monotonic()

    def stage(self, title: str, stage: str, total: int = 0) -> None:
        """A stage of a run begins; `total` episodes are to be done in it (0: not counted). Ends here if a signal asked for it."""
        heed_signals()
        with self.lock:
            self.title, self.stage_name, self.total = title, stage, total
            self.episodes = self.faults = self.turns = self.output_tokens = self.programs = 0
            self.stage_started = time.monotonic()
        self.refresh()

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
            parts.append(f"{self.output_tokens} tokens")
        if self.programs:
            parts.append(f"{self.programs} programs")
        return " · ".join(parts)

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
                print(f"{text} · {now - self.started:.0f} s", file=sys.stderr, flush=True)

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

        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            self._status = (progress, progress.add_task("starting"))
            try:
                yield
            finally:
                self._keep_finished()
                self._status = None

    def refresh(self) -> None:
        if self._status is not None:
            progress, task_id = self._status
            progress.update(task_id, description=self.describe())


def board_for_terminal(*, quiet: bool = False) -> Board:
    """Live on a terminal, lines elsewhere, nothing when quiet."""
    if quiet:
        return Board()
    return LiveBoard() if sys.stderr.isatty() else LineBoard()
