"""Golden contexts of a repository task's first message (section 3.1), cut to a token limit."""

import re

_SECTION = re.compile(r"(?m)^(?=[ \t]*####\w)")
_HOLE = re.compile(r"(?m)^.*###The function: .*$")
CHARACTERS_PER_TOKEN = 4
"""Approximation, the same for all models."""
_CUT = "\n[...]\n"


def within_budget(prompt: str, begins: int | None, tokens: int | None) -> str:
    """Return the message with its contexts cut to a number of tokens.

    The contexts have sections: the task's file and other files. Each section gets an equal share,
    and tokens that a short section does not need go to the others. Of the task's file the text
    around the function remains, of other files the beginning.

    Args:
        prompt: the first message.
        begins: offset of the contexts in the message; None if it has none.
        tokens: maximum tokens of all contexts; None for no limit.
    """
    if begins is None or tokens is None:
        return prompt
    sections = [part for part in _SECTION.split(prompt[begins:]) if part]
    left, shown = tokens * CHARACTERS_PER_TOKEN, dict[int, str]()
    by_length = sorted(range(len(sections)), key=lambda n: len(sections[n]))
    for done, n in enumerate(by_length):
        shown[n] = _around(sections[n], left // (len(sections) - done))
        left -= min(len(sections[n]), left // (len(sections) - done))
    return prompt[:begins] + "".join(shown[n] for n in range(len(sections)))


def _around(text: str, characters: int) -> str:
    """Return at most `characters` characters, around the function's marker or from the start."""
    if len(text) <= characters:
        return text
    hole = _HOLE.search(text)
    middle = (hole.start() + hole.end()) // 2 if hole else 0
    first = max(0, min(middle - characters // 2, len(text) - characters))
    last = first + characters
    return (_CUT if first else "") + text[first:last] + (_CUT if last < len(text) else "")
