"""Which result tables hold curves: told by their columns' names alone, so that any package's mart is drawn."""

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
"""Columns of result tables that tell runs apart, not parts of a run."""


@dataclass(frozen=True)
class CurveTable:
    """A table with values at the places of an axis."""

    name: str
    axis: str
    """Column with the place: `turn` or `level`. A column `axis`, where there is one, says what the place is of."""
    parts: tuple[str, ...]
    """Columns that part the table into curves."""
    measures: tuple[str, ...]
    """Columns that have an interval beside them."""
    counts: Mapping[str, tuple[str | None, str | None]]
    """Measure -> columns with its n and with its n_unscored; None where the table does not say."""


def curve_table(name: str, types: Mapping[str, str]) -> CurveTable | None:
    """The curves of a table by its columns and their types; None where it has none.

    A measure is a column `x` with `x_low` and `x_high` beside it.
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
    """Measure -> columns of its n and n_unscored.

    `n_ca` is of `ca`, and of `ca_strict` where there is no `n_ca_strict`. `n` is of the one measure without such a column, or of
    all measures where none has one. A measure with neither has no n: another measure's n is never shown for it.
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
