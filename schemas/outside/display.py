"""Display of text of unknown origin: prompts, answers and names are data.

They never act as markup or terminal commands. Long reasons of withheld and failed runs are
shortened; `--json` prints the full text.
"""

import os
import re
import sys
import unicodedata
from contextlib import suppress

_LINK = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?=@)", re.IGNORECASE)
"""Positions where a viewer would begin a link on its own."""
_ESCAPED = {ord(c): f"\\{c}" for c in "\\`*[]<>|~$!"} | {ord("&"): "&amp;"}

_CONTROL = {code: None for code in (*range(32), 127) if chr(code) not in "\n\t"}
LAST_FAULT = "The last fault:"
"""Prefix of the cause of a run's faults in the reason why it is withheld."""


def plain_line(text: str, width: int = 200) -> str:
    """Return one line without control, format or bidirectional characters, at most `width` long."""
    clean = "".join(
        " " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c)[0] != "C"
    )
    return clean if len(clean) <= width else clean[: width - 1] + "…"


def plain_difference(before: str, after: str, width: int = 60) -> tuple[str, str]:
    """Return both texts as plain lines of at most `width` characters.

    Longer lines are cut around the first difference.
    """
    first, second = (plain_line(text, len(text)) for text in (before, after))
    spare = max(len(first), len(second)) - width
    equal = next(
        (at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )
    start = min(spare + 1, equal - width // 3)
    if start > 1:
        first, second = "…" + first[start:], "…" + second[start:]
    return plain_line(first, width), plain_line(second, width)


def plain_text(text: str) -> str:
    """Return the text without control characters other than newline and tab."""
    if text.isascii():
        return text.translate(_CONTROL)
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c)[0] != "C")


def dialogue_name(problem_id: str, dialog_id: str) -> str:
    """Return the name of a dialogue: its id, after the problem's id if it does not contain that."""
    return dialog_id if problem_id in dialog_id else f"{problem_id} · {dialog_id}"


def markdown_cell(text: str, width: int = 120) -> str:
    """Return a cell of a markdown table in which no pipe, markup, link or HTML takes effect."""
    return _LINK.sub(r"\\", plain_line(text, width).translate(_ESCAPED))


def is_plain_name(text: str) -> bool:
    """Return True if a name can stand in a table, a path and a terminal as it is.

    Such a name has no control, format or unpaired characters.
    """
    return all(unicodedata.category(c)[0] != "C" and (c == " " or not c.isspace()) for c in text)


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
    cause = plain_line(f" {mark}{rest}", room * 2 // 3)
    return head[: room - len(_CUT) - len(cause)].rstrip() + _CUT + cause


def _columns() -> int:
    """Return the width of the narrower terminal among stdout and stderr."""
    widths: list[int] = []
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a pipe, or a closed stream
            widths.append(os.get_terminal_size(stream.fileno()).columns)
    return min((width for width in widths if width > 0), default=_COLUMNS)
