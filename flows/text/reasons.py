"""Reasons of withheld and failed runs, short enough to read: `--json` has the whole text."""

import os
import sys
from contextlib import suppress

from schemas.outside.display import LAST_FAULT, plain_line

LINES = 3
"""Most lines that a reason takes with what stands before it."""
_COLUMNS = 80
"""Width of a line where neither stdout nor stderr is a terminal."""
_CUT = "… (whole: --json)"


def in_three_lines(text: str) -> str:
    """Return a text as one plain line that a terminal folds into at most three. Its cause keeps two of them.

    Args:
        text: with all that stands on the line before the reason, indentation included.
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
    """Width of the narrower terminal among stdout and stderr."""
    widths: list[int] = []
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a pipe, or a closed stream
            widths.append(os.get_terminal_size(stream.fileno()).columns)
    return min((width for width in widths if width > 0), default=_COLUMNS)
