"""How wide the columns of a table may be, where all of them together have so much room and no more."""

from collections.abc import Sequence

WIDTH = 100
"""Characters, where no terminal says how many it has."""
GAP = 2
_SHORTEST = ((True, 12), (False, 12), (False, 8))
"""What is tried, one after the other: whether names stay whole, and how narrow a text may be."""


def fitted_widths(
    heads: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool], room: int = WIDTH - 1
) -> list[int] | None:
    """The columns' widths: as wide as what is in them, then the widest texts are folded until all fit. None where they cannot.

    Args:
        heads: names of the columns; they break between words.
        cells: by row. The first of each is a name, which is folded last.
        numeric: for each column, whether it holds numbers, which are never folded.
    """
    words = [max(map(len, head.split()), default=1) for head in heads]
    longest = [max((len(line[at]) for line in cells), default=1) for at in range(len(heads))]
    for names_stay_whole, shortest in _SHORTEST:
        whole = [is_number or (names_stay_whole and not at) for at, is_number in enumerate(numeric)]
        least = [max(words[at], n if whole[at] else min(n, shortest)) for at, n in enumerate(longest)]
        if sum(least) + GAP * len(least) > room:
            continue
        widths = [max(word, n) for word, n in zip(words, longest, strict=True)]
        while sum(widths) + GAP * len(widths) > room:
            widest = max((at for at, width in enumerate(widths) if width > least[at]), key=lambda at: widths[at])
            widths[widest] -= 1
        for at, head in enumerate(heads):  # in what is left, heads in one line
            widths[at] += min(max(0, len(head) - widths[at]), room - sum(widths) - GAP * len(widths))
        return widths
    return None
