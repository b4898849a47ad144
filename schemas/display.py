"""Text of unknown origin, made safe to show: prompts, answers and names are data, never markup or terminal commands."""

import unicodedata

_ESCAPED = {ord(c): f"\\{c}" for c in "\\`*[]<>|~$!"} | {ord("&"): "&amp;"}


def plain_line(text: str, width: int = 200) -> str:
    """One line without control, format or bidirectional characters, at most `width` long."""
    clean = "".join(" " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c)[0] != "C")
    return clean if len(clean) <= width else clean[: width - 1] + "…"


def plain_text(text: str) -> str:
    """Several lines without control characters other than newline and tab."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c)[0] != "C")


def markdown_cell(text: str, width: int = 120) -> str:
    """A cell of a markdown table: no pipes, markup or HTML takes effect."""
    return plain_line(text, width).translate(_ESCAPED)
