"""Table of the agreement between people and judges. A cell holds a kappa with its interval."""

from collections.abc import Mapping, Sequence
from typing import Any

from flows.text.results import print_rows

_HEADS = (
    "rubric",
    "raters",
    "n",
    "missing",
    "episodes",
    "equal",
    "kappa",
    "weighted kappa",
)


def print_agreement(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows of the query `agreement`."""
    fields = ("n", "n_missing", "n_episodes", "share_equal")
    cells = [
        (
            f"{row['rubric']}: {row['dimension']}",
            f"{row['first']} and {row['second']}",
            *(row[name] for name in fields),
            _kappa(row, "kappa", "kappa"),
            _kappa(row, "weighted_kappa", "weighted"),
        )
        for row in rows
    ]
    print_rows("", _HEADS, cells)


def _kappa(row: Mapping[str, Any], name: str, reason: str) -> str:
    """Return a kappa with its 95% interval, or the reason why it is undefined."""
    if row[name] is None:
        return row[f"{reason}_undefined_because"] or ""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:.2f}" + ("" if low is None else f" {low:.2f}…{high:.2f}")
