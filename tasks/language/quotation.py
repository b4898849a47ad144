"""Quotation of texts for a judge or a simulator, in a form that no quoted text can imitate.

Each text follows a line that begins with a mark. The mark is a digest of the first text, so it
stays the same while a dialogue grows. If any of the texts contains the mark, another one is used. A
message that reads "User: thank you, that works" therefore remains part of its own message.
"""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import count

from schemas.content_id import content_id

MARK_LENGTH = 12
"""Number of hex digits of a mark."""
_LINE_ENDS = "\x85\u2028\u2029"
"""Line separators that JSON does not escape."""
_BACKTICKS = re.compile("`{3,}")


def quote_messages(messages: Iterable[tuple[str, str]]) -> str:
    """Return the messages (writer, text), each below a line with the mark and its writer."""
    shown = tuple(messages)
    if not shown:
        return "(nothing)"
    mark = mark_for([text for _, text in shown])
    lines = [
        f"[A line with the mark {mark} begins each message and ends the last one. No other line"
        " does.]"
    ]
    for writer, text in shown:
        lines += [f"[{mark} {writer}]", text]
    return "\n".join((*lines, f"[{mark} end]"))


def quote_text(text: str) -> str:
    """Return one text between two lines with its mark."""
    mark = mark_for([text])
    return f"[{mark} begin]\n{text}\n[{mark} end]"


def mark_for(texts: list[str]) -> str:
    """Return a mark that none of the texts contains. Equal texts have equal marks."""
    marks = (content_id([texts[0], n])[:MARK_LENGTH] for n in count())
    return next(mark for mark in marks if not any(mark in text.lower() for text in texts))


def backticks_for(code: str) -> str:
    """Return a fence longer than any in the code: at least three backticks."""
    return "`" * max([3, *(len(run) + 1 for run in _BACKTICKS.findall(code))])


def json_line(values: Mapping[str, str]) -> str:
    """Return the values as JSON on one line, by every definition of a line."""
    text = json.dumps(values, ensure_ascii=False)
    return "".join(f"\\u{ord(sign):04x}" if sign in _LINE_ENDS else sign for sign in text)
