"""How wide the columns of a table may be, where all of them together have so much room and no more."""

from collections.abc import Iterable, Sequence

WIDTH = 100
"""Characters, where no terminal says how many it has."""
GAP = 2
_ORDINARY = 24
"""Longer words are ids, options and the like."""
_SHORTEST = (
    (True, _ORDINARY, 12),
    (False, _ORDINARY, 12),
    (True, 0, 12),
    (True, 0, 8),
    (False, 0, 12),
    (False, 0, 8),
)
"""What is tried, one after the other: whether names stay whole, which words do, and how narrow a text may be."""


def fitted_widths(
    heads: Sequence[str],
    cells: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    room: int = WIDTH - 1,
) -> list[int] | None:
    """The columns' widths: as wide as what is in them, then the widest texts are folded until all fit. None where they cannot.

    Args:
        heads: names of the columns; they break between words.
        cells: by row. The first of each is a name, which is folded last.
        numeric: for each column, whether it holds numbers, which are never folded.
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
        for at, head in enumerate(heads):  # in what is left, heads in one line
            widths[at] += min(
                max(0, len(head) - widths[at]), room - sum(widths) - GAP * len(widths)
            )
        return widths
    return None


def _longest_word(texts: Iterable[str], most: int) -> int:
    """Return the length of the longest word that is no longer than `most`."""
    return max(
        (len(word) for text in texts for word in text.split() if len(word) <= most), default=0
    )


def most_lines(cells: Iterable[Sequence[str]], widths: Sequence[int]) -> int:
    """Return how many lines the tallest row has at least, if its cells are folded to these widths."""
    return max(
        (
            -(-len(cell) // width)
            for line in cells
            for cell, width in zip(line, widths, strict=True)
        ),
        default=0,
    )
