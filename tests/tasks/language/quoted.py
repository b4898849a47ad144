"""Reads a quoted talk out of a prompt, as somebody does who knows its mark."""

import re

_FIRST = re.compile(r"\[A line with the mark ([0-9a-f]+) begins")


def quoted_talk(prompt: str) -> list[tuple[str, str]]:
    """Return writer and text of each message of the first talk that a prompt quotes."""
    first = _FIRST.search(prompt)
    assert first is not None
    mark = first[1]
    whole = prompt.partition(f"{mark} begins")[2].partition("\n")[2]
    parts = re.split(rf"(?:\A|\n)\[{mark} (\w+)\](?:\n|\Z)", whole)
    assert parts[0] == ""
    assert parts[-2] == "end"
    return list(zip(parts[1:-2:2], parts[2:-2:2], strict=True))
