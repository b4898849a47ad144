"""How far people and judges agree, as a table: each kappa with its interval in one cell, or why there is none."""

from collections.abc import Mapping, Sequence
from typing import Any

from flows.text.results import print_rows

_HEADS = (
    "rubric",
    "pair",
    "first",
    "second",
    "n",
    "missing",
    "episodes",
    "equal",
    "kappa",
    "weighted kappa",
)


def print_agreement(found: Sequence[Mapping[str, Any]]) -> None:
    """Print rows of the query `agreement`."""
    named = ("pair", "first", "second", "n", "n_missing", "n_episodes", "share_equal")
    rows = [
        (
            f"{one['rubric']}: {one['dimension']}",
            *(one[name] for name in named),
            _kappa(one, "kappa", "kappa"),
            _kappa(one, "weighted_kappa", "weighted"),
        )
        for one in found
    ]
    print_rows("", _HEADS, rows)


def _kappa(one: Mapping[str, Any], name: str, why: str) -> str:
    """Mean and 95% interval of one kappa; why it is undefined where it is."""
    if one[name] is None:
        return one[f"{why}_undefined_because"] or ""
    low, high = one[f"{name}_low"], one[f"{name}_high"]
    return f"{one[name]:.2f}" + ("" if low is None else f" {low:.2f}…{high:.2f}")
