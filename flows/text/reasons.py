"""Shortened reasons of withheld and failed runs. `--json` prints the full text."""

import os
import sys
from contextlib import suppress

from schemas.outside.display import LAST_FAULT, plain_line

LINES = 3
"""Maximum number of lines of a reason, including the text before it."""
_COLUMNS = 80
"""Width of a line if neither stdout nor stderr is a terminal."""
_CUT = "… (full text: --json)"


def in_three_lines(text: str) -> str:
    """Return a text as one plain line that a terminal folds into at most three lines.

    If the text is too long, its end, which states the cause, gets two of the three lines.

    Args:
        text: the whole line, including indentation and everything before the reason.
    """
    room = LINES * _columns()
    line = plain_line(text, len(text))
    if len(line) <= room:
        return line
    head, mark, rest = line.rpartition(LAST_FAULT)
    if not mark:
        return line[: room - len(_CUT)] + _CUT
    cause = f" {mark}{rest}"[: room * 2 // 3]
    return head[: room - len(_CUT) - len(cause)].rstrip() + _CUT + cause


def _columns() -> int:
    """Return the width of the narrower terminal among stdout and stderr."""
    widths: list[int] = []
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a pipe, or a closed stream
            widths.append(os.get_terminal_size(stream.fileno()).columns)
    return min((width for width in widths if width > 0), default=_COLUMNS)
