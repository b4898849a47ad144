"""Column widths of a table of limited width."""

import os
from collections.abc import Iterable, Sequence

WIDTH = 80
"""Number of characters of a line in a pipe or a log, unless COLUMNS is set."""
GAP = 2
_ORDINARY = 24
"""Maximum characters of an ordinary word. Longer words are ids, options and similar texts."""
_SHORTEST = (
    (True, _ORDINARY, 12),
    (False, _ORDINARY, 12),
    (True, 0, 12),
    (True, 0, 8),
    (False, 0, 12),
    (False, 0, 8),
)
"""Layouts in the order in which they are tried.

A layout is (whether names stay on one line, longest word that is not broken, minimum width of a
text column).
"""


def piped_width() -> int:
    """Return the width of lines in a pipe or a log: COLUMNS, or else 80."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) else WIDTH


def fitted_widths(
    heads: Sequence[str],
    cells: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    room: int,
) -> list[int] | None:
    """Return column widths with which the table fits, or None if it cannot fit.

    Columns start as wide as their content. The widest text columns are narrowed until all fit.

    Args:
        heads: names of the columns, which can break between words.
        cells: texts by row. The first cell of a row is a name, which is folded last.
        numeric: for each column, whether it holds numbers, which are never folded.
        room: characters of a line.
    """
    words = [max(map(len, head.split()), default=1) for head in heads]
    longest = [max((len(line[at]) for line in cells), default=1) for at in range(len(heads))]
    for names_stay_whole, ordinary, shortest in _SHORTEST:
        whole = [is_number or (names_stay_whole and not at) for at, is_number in enumerate(numeric)]
        unbroken = [
            _longest_word([line[at] for line in cells], ordinary) for at in range(len(heads))
        ]
        least = [
            max(words[at], n if whole[at] else max(unbroken[at], min(n, shortest)))
            for at, n in enumerate(longest)
        ]
        if sum(least) + GAP * len(least) > room:
            continue
        widths = [max(word, n) for word, n in zip(words, longest, strict=True)]
        while sum(widths) + GAP * len(widths) > room:
            widest = max(
                (at for at, width in enumerate(widths) if width > least[at]),
                key=lambda at: widths[at],
            )
            widths[widest] -= 1
        # Widen columns whose head would break, while there is room.
        for at, head in enumerate(heads):
            widths[at] += min(
                max(0, len(head) - widths[at]), room - sum(widths) - GAP * len(widths)
            )
        return widths
    return None


def _longest_word(texts: Iterable[str], most: int) -> int:
    """Return the length of the longest word among words of at most `most` characters."""
    return max(
        (len(word) for text in texts for word in text.split() if len(word) <= most), default=0
    )


def most_lines(cells: Iterable[Sequence[str]], widths: Sequence[int]) -> int:
    """Return a lower bound of the lines of the tallest row if cells are folded to these widths."""
    return max(
        (
            -(-len(cell) // width)
            for line in cells
            for cell, width in zip(line, widths, strict=True)
        ),
        default=0,
    )
