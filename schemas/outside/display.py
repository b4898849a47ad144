"""Text of unknown origin, made safe to show: prompts, answers and names are data, never markup or terminal commands."""

import re
import unicodedata

_LINK = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?=@)", re.IGNORECASE)
"""Where a viewer would begin a link of its own accord."""
_ESCAPED = {ord(c): f"\\{c}" for c in "\\`*[]<>|~$!"} | {ord("&"): "&amp;"}

LAST_FAULT = "The last fault:"
"""Words before the cause of a run's faults in the reason why it is withheld."""


def plain_line(text: str, width: int = 200) -> str:
    """One line without control, format or bidirectional characters, at most `width` long."""
    clean = "".join(
        " " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c)[0] != "C"
    )
    return clean if len(clean) <= width else clean[: width - 1] + "…"


def plain_difference(before: str, after: str, width: int = 60) -> tuple[str, str]:
    """Both as one plain line, at most `width` long; what is longer is cut around the first difference."""
    one, other = (plain_line(text, len(text)) for text in (before, after))
    spare = max(len(one), len(other)) - width
    alike = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    start = min(spare + 1, alike - width // 3)
    if start > 1:
        one, other = "…" + one[start:], "…" + other[start:]
    return plain_line(one, width), plain_line(other, width)


def plain_text(text: str) -> str:
    """Several lines without control characters other than newline and tab."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c)[0] != "C")


def markdown_cell(text: str, width: int = 120) -> str:
    """A cell of a markdown table: no pipes, markup, links or HTML take effect."""
    return _LINK.sub(r"\\", plain_line(text, width).translate(_ESCAPED))


def is_plain_name(text: str) -> bool:
    """Whether a name can stand in a table, a path and a terminal as it is: no control, format or unpaired characters."""
    return all(unicodedata.category(c)[0] != "C" and (c == " " or not c.isspace()) for c in text)
