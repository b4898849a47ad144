"""Review comments, an input of `parley build codeif-tasks` besides base tasks."""

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.dialog import Context, Role, Turn
from schemas.problem import QuarantinedRow
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_rows import (
    BadRow,
    Fault,
    parse_object,
    quarantined_row,
    read_lines,
    relative_name,
)

if TYPE_CHECKING:
    from tasks.language.embedding import Vector


CONSTRUCTION = "construction"
"""Dataset version of base tasks with review comments."""
FILES = "review_comments*.jsonl"
_FIELDS = ("comment", "msg", "text")
"""Names that the field with a review comment may have."""


def comments_of(staged: Staged) -> tuple[str, ...]:
    """Return the distinct comments of the data in order."""
    return tuple(
        dict.fromkeys(turn.content or "" for context in staged.contexts for turn in context.turns)
    )


def read_comments(
    source: Path, benchmark: str, version: str
) -> tuple[tuple[Context, ...], tuple[QuarantinedRow, ...], int]:
    """Read a folder's review comments into one context, as one turn for each comment.

    Returns:
        The context, the rows without a readable comment, and the number of these rows.
    """
    texts: list[str] = []
    bad_rows: list[QuarantinedRow] = []
    paths = sorted([*source.glob(FILES), *source.glob(f"{FILES}.gz")]) if source.is_dir() else ()
    for path in paths:
        name = relative_name(path, source)
        for line in read_lines(path):
            if isinstance(line, Fault):
                bad_rows.append(
                    quarantined_row(
                        benchmark, version, name, line.number, BadRow(line.reason, line.detail)
                    )
                )
                continue
            try:
                texts.append(_comment(parse_object(line.content)))
            except BadRow as fault:
                bad_rows.append(
                    quarantined_row(benchmark, version, name, line.number, fault, line.content)
                )
    turns = tuple(Turn(turn=n, role=Role.USER, content=text) for n, text in enumerate(texts, 1))
    return (Context.of(benchmark, version, turns),) if turns else (), tuple(bad_rows), len(bad_rows)


def _comment(raw: dict[str, Any]) -> str:
    comment = next((raw[name] for name in _FIELDS if name in raw), None)
    if comment is None:
        raise BadRow("missing_field", f"no {', '.join(_FIELDS)}")
    if not isinstance(comment, str):
        raise BadRow("wrong_type", "the comment is no text")
    if not comment.strip():
        raise BadRow("blank_text", "the comment is blank")
    return comment


def k_centres(vectors: "Sequence[Vector]", k: int) -> tuple[int, ...]:
    """Return the indices of `k` vectors, each the farthest from those selected before.

    The first vector is always selected. Of equally far vectors the first is selected. With at most
    `k` vectors, all are selected.

    Args:
        vectors: vectors of length 1, so that distance falls as the dot product grows.
        k: number of vectors to select.

    Source: Sener and Savarese 2018, algorithm 1.
    """
    if not vectors or k < 1:
        return ()
    chosen, farthest = [0], 0
    nearest = [-inf] * len(vectors)
    while len(chosen) < min(k, len(vectors)):
        for n, vector in enumerate(vectors):
            nearest[n] = max(nearest[n], float(vector @ vectors[farthest]))
        nearest[farthest] = inf  # never select it again
        farthest = min(range(len(vectors)), key=nearest.__getitem__)
        chosen.append(farthest)
    return tuple(chosen)
