"""Night-wide claims: early decisions of a night that e-BH selects over all of its decisions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warehouse.comparison.sequential import e_bh

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FALSE_CLAIMS = 2
"""Most of the claims `better`, `worse` and `equivalent` about one difference that can be false at
once. The data choose the claim, so the e-value of a decision has a mean of at most this if the
decision is false."""
_DECISIONS = """
select runs.night_id, decisions.run_id, decisions.metric, decisions.alpha, decisions.e_value
from decisions inner join runs on decisions.run_id = runs.run_id order by all
"""


def hold_together(e_values: Sequence[float], alpha: float) -> list[bool]:
    """Select decisions of a night with an expected share of false ones of at most `alpha`.

    Args:
        e_values: evidence for each decision, as in `decisions.e_value`. It is 0 for a run without a
            claim.
    """
    return e_bh(e_values, alpha / _FALSE_CLAIMS)


def refresh_night_decisions(connection: "DuckDBPyConnection") -> None:
    """Set `is_night_wide` in all rows of `decisions`.

    It is true for decisions that are selected at the night's smallest alpha. It is NULL without a
    claim, and if a night decided only one run.
    """
    nights: dict[str, list[tuple[Any, ...]]] = {}
    for night_id, *row in connection.execute(_DECISIONS).fetchall():
        nights.setdefault(night_id, []).append(tuple(row))
    connection.execute("update decisions set is_night_wide = null where is_night_wide is not null")
    for rows in nights.values():
        if len({run_id for run_id, *_ in rows}) > 1:
            chosen = hold_together(
                [e_value for *_, e_value in rows], min(alpha for *_, alpha, _ in rows)
            )
            connection.executemany(
                "update decisions set is_night_wide = ? where run_id = ? and metric = ? and "
                "decision in"
                " ('better', 'worse', 'equivalent')",
                [
                    [is_chosen, run_id, metric]
                    for is_chosen, (run_id, metric, *_) in zip(chosen, rows, strict=True)
                ],
            )
