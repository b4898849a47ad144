"""Live progress on a terminal: one line per run, with bar, rates, cost and time left."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flows.night.reporting.progress import Board, Line, LineBoard, duration_text
from schemas.outside.display import plain_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_BAR, _SHORT_BAR, _LEAST_TITLE = 16, 8, 12
"""Widths in characters: a bar, a bar on a narrow terminal, and the shortest title."""
_LINES_A_SECOND = 4
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
Part = tuple[str, str]
"""Text and rich style of a part of a line."""


class LiveBoard(Board):
    """Live lines at the bottom of the terminal, one per active run.

    Finished stages stay above them.
    """

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console

        self.console = Console(stderr=True)
        self._live: Any = None

    def left(self, line: Line) -> None:
        """Print a finished stage above the live lines."""
        if self._live is not None:
            from rich.text import Text

            text = f"{line.describe()} · {time.monotonic() - line.started:.1f} s"
            self.console.print(Text.assemble(("✓ ", "green"), plain_line(text, 500)))

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show the live lines during the block. Other output is printed above them."""
        from rich.live import Live

        with Live(
            get_renderable=self._lines_now,
            console=self.console,
            transient=True,
            refresh_per_second=_LINES_A_SECOND,
        ) as shown:
            self._live = shown
            try:
                yield
            finally:
                with self.lock:
                    for line in self._lines.values():
                        self.left(line)
                    self._live = None

    def _lines_now(self) -> "RenderableType":
        from rich.console import Group

        with self.lock:
            return Group(*(live_line(line, self.console.width) for line in self._lines.values()))


def live_line(line: Line, width: int) -> "Text":
    """Return the current stage of a run in one line of at most `width` characters.

    If there is too little room, the stage's name is dropped, the bar is shortened, the title is
    cut, and then rates are dropped.
    """
    from rich.text import Text

    now = time.monotonic()
    bar, facts = _bar(line, _BAR), _facts(line, now)
    title = plain_line(line.title, 500)

    def room() -> int:
        return (
            width
            - 3
            - sum(len(text) + 2 for text, _ in facts)
            - (sum(len(text) for text, _ in bar) + 2 if bar else 0)
        )

    least = min(len(title), _LEAST_TITLE)
    if bar and room() < len(title):
        bar = _bar(line, _SHORT_BAR)
    while room() < least and len(facts) > 2:
        facts.pop(-2)  # The time, which is the last fact, is never dropped.
        if len(facts) == 2 and room() < least:
            bar = []
    frame = _FRAMES[int(now * _LINES_A_SECOND) % len(_FRAMES)]
    parts: list[Part] = [(f"{frame} ", "cyan"), (_cut(title, max(1, room())), "bold")]
    if room() >= len(title) + 2 + len(line.stage):
        parts.append((f"  {line.stage}", ""))
    parts += [("  ", ""), *bar] if bar else []
    for fact in facts:
        parts += [("  ", ""), fact]
    assembled = Text.assemble(*parts, no_wrap=True)
    assembled.truncate(width)
    return assembled


def _cut(title: str, width: int) -> str:
    """Return a title shortened in the middle: its setting is at the start, its model at the end."""
    if len(title) <= width:
        return title
    head = width // 2
    return f"{title[:head]}…{title[len(title) - (width - head - 1) :]}"


def _bar(line: Line, width: int) -> list[Part]:
    share = line.share_done()
    if share is None:
        return []
    done = int(share * width)
    return [("━" * done, "green"), ("━" * (width - done), "bright_black")]


def _facts(line: Line, now: float) -> list[Part]:
    """Return counts, rates and cost, the most important first, and the time last."""
    facts: list[Part] = [(f"{line.episodes}/{line.total}", "")] if line.total else []
    reason = ", ".join(filter(None, (line.noted, line.read_state())))
    if reason:
        facts.append((plain_line(reason, 60), "yellow"))
    if line.faults:
        facts.append((f"{line.faults} faults", "red"))
    usd = line.usd()
    if usd is not None:
        facts.append((f"${usd:.{2 if usd >= 1 else 4}f}", ""))
    for amount, unit in ((line.turns, "turns/s"), (line.output_tokens, "tok/s")):
        if amount:
            rate = line.rate(amount)
            facts.append((f"{rate:.{0 if rate >= 10 else 1}f} {unit}", "cyan"))
    left_s = line.seconds_left()
    facts.append(
        (
            f"{duration_text(now - line.started)}"
            if left_s is None
            else f"{duration_text(left_s)} left",
            "bright_black",
        )
    )
    return facts


def board_for_terminal(*, quiet: bool = False) -> Board:
    """Return a live board on a terminal, plain lines elsewhere, and no output if quiet."""
    if quiet:
        return Board()
    if not sys.stderr.isatty():
        return LineBoard()
    return LiveBoard()
