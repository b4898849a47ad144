"""The leading model of each setting, from the paired comparison of its two best models."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flows.site.matrix import rivals
from warehouse.comparison.paired import ALPHA
from warehouse.site_rows import SiteRows

Row = Mapping[str, Any]


def leading_pairs(rows: SiteRows, matrices: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield (second run, leading run) of each setting whose two best runs are comparable."""
    for matrix in matrices:
        best = list(rivals(matrix))
        if (
            len(best) == 2
            and matrix["better"] is not None
            and rows.are_comparable(best[1]["run_id"], best[0]["run_id"])
        ):
            yield best[1]["run_id"], best[0]["run_id"]


def standing(matrix: Row, compared: Mapping[tuple[str, str], Sequence[Row]]) -> dict[str, Any]:
    """Return who leads on a setting's main metric, by how much, and whether that is decided.

    Args:
        matrix: one of `matrices`.
        compared: (old run, new run) -> rows as in the table `comparisons`.

    Returns:
        A dictionary. Its `state` is `controls` (no model has a value), `single` (one model has),
        `undirected` (no value of the metric is better than another), `apart` (the runs are not
        comparable, or share no problem), `decided` or `undecided`.
    """
    best = list(rivals(matrix))
    result: dict[str, Any] = {
        "matrix": matrix,
        "leader": None,
        "second": None,
        "pair": None,
        "state": "controls",
    }
    if not best:
        return result
    result |= {"leader": best[0], "state": "single"}
    if len(best) == 1:
        return result
    result |= {"second": best[1], "state": "undirected" if matrix["better"] is None else "apart"}
    rows = compared.get((best[1]["run_id"], best[0]["run_id"]), ())
    pair = next(
        (row for row in rows if row["metric"] == matrix["main"] and row["difference"] is not None),
        None,
    )
    if pair is None or matrix["better"] is None:
        return result
    gain = pair["difference"] if matrix["better"] == "higher" else -pair["difference"]
    is_decided = gain > 0 and pair["q_value"] is not None and pair["q_value"] <= ALPHA
    return result | {"pair": pair, "state": "decided" if is_decided else "undecided"}
