"""The golden contexts of a repository task's first message (section 3.1), cut to a budget of tokens."""

import re

_SECTION = re.compile(r"(?m)^(?=[ \t]*####\w)")
_HOLE = re.compile(r"(?m)^.*###The function: .*$")
CHARACTERS_PER_TOKEN = 4
"""About; no model's own tokens are counted."""
_CUT = "\n[...]\n"


def within_budget(prompt: str, begins: int | None, tokens: int | None) -> str:
    """The message with its contexts cut to so many tokens.

    Its sections (the file itself, other files) share them evenly, and what a short one leaves goes to the other. Of the file
    itself the text around the place of the function is kept, of others the beginning.

    Args:
        begins: where the contexts begin; None where there is none.
        tokens: None for all of it.
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
    """The text, or so many of its characters around the function's place, or from its beginning."""
    if len(text) <= characters:
        return text
    hole = _HOLE.search(text)
    middle = (hole.start() + hole.end()) // 2 if hole else 0
    first = max(0, min(middle - characters // 2, len(text) - characters))
    last = first + characters
    return (_CUT if first else "") + text[first:last] + (_CUT if last < len(text) else "")
