"""Result tables with curves. Column names alone decide, so any package's mart can be drawn."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

_NEEDED = {"run_id", "model", "setting", "dataset_version"}
_SHARED = (
    *(
        "run_id",
        "benchmark",
        "model",
        "setting",
        "dataset_version",
        "sandbox",
        "isolated",
        "task_share",
    ),
    *("episode_options", "scoring_options", "options"),
)
"""Columns of result tables that identify a run, not a part of it."""


@dataclass(frozen=True)
class CurveTable:
    """Table with values at the positions of an axis."""

    name: str
    axis: str
    """Column of the position: `turn` or `level`. A column `axis`, if present, names the axis of the
    positions."""
    parts: tuple[str, ...]
    """Columns that divide the table into curves."""
    measures: tuple[str, ...]
    """Columns with an interval beside them."""
    counts: Mapping[str, tuple[str | None, str | None]]
    """Measure -> columns of its n and n_unscored. None: the table has no such column."""


def curve_table(name: str, types: Mapping[str, str]) -> CurveTable | None:
    """Return the curves of a table with these columns and types, or None if it has none.

    A measure is a column `x` with columns `x_low` and `x_high`.
    """
    measures = [column for column in types if {f"{column}_low", f"{column}_high"} <= types.keys()]
    axis = next((column for column in ("turn", "level") if column in types), None)
    if axis is None or not measures or not types.keys() >= _NEEDED:
        return None
    parts = (
        column
        for column, kind in types.items()
        if kind == "VARCHAR" and column != axis and column not in _SHARED
    )
    return CurveTable(name, axis, tuple(parts), tuple(measures), counts_of(types, measures))


def counts_of(
    columns: Collection[str], measures: Sequence[str]
) -> dict[str, tuple[str | None, str | None]]:
    """Return measure -> columns of its n and n_unscored.

    `n_ca` belongs to `ca`, and to `ca_strict` if there is no `n_ca_strict`. `n` belongs to the one
    measure without such a column, or to all measures if none has one. A measure with neither has no
    n: another measure's n is never shown for it.
    """
    own: dict[str, str | None] = {}
    for measure in measures:
        words = measure.rstrip("_").split("_")
        names = (f"n_{'_'.join(words[:length])}" for length in range(len(words), 0, -1))
        own[measure] = next((name for name in names if name in columns), None)
    without = [measure for measure, n in own.items() if n is None]
    if "n" in columns and len(without) in (1, len(measures)):
        own |= dict.fromkeys(without, "n")
    return {
        m: (n, f"{n}_unscored" if n is not None and f"{n}_unscored" in columns else None)
        for m, n in own.items()
    }
