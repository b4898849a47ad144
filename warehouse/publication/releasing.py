"""Publication of withheld runs that a person released, unless their results have changed."""

from typing import TYPE_CHECKING

from schemas.night.release import results_digest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def apply_releases(connection: "DuckDBPyConnection") -> frozenset[str]:
    """Mark released runs as finished, with the reason of their latest valid release.

    A release lapses when its run has other results. Its row in `releases` stays.

    Returns:
        The runs that are now shown, no longer shown, or shown with another reason.
    """
    before = _reasons(connection)
    connection.execute(
        "update runs set status = 'withheld', released_because = null where released_because "
        "is not null"
    )
    for run_id, because, digest, state, finished_at in connection.execute(
        "select runs.run_id, releases.because, releases.results_digest, runs.state, "
        "runs.finished_at from runs"
        " inner join releases on runs.run_id = releases.run_id where runs.status = 'withheld'"
        " order by runs.run_id, releases.number, releases.released_at"
    ).fetchall():
        if results_digest(((pair["key"], pair["value"]) for pair in state), finished_at) == digest:
            connection.execute(
                "update runs set status = 'finished', released_because = ? where run_id = ?",
                [because, run_id],
            )
    return frozenset(run_id for run_id, _ in before ^ _reasons(connection))


def _reasons(connection: "DuckDBPyConnection") -> frozenset[tuple[str, str]]:
    """Return (run_id, reason) of the runs that are shown because of a release."""
    shown = (
        "select run_id, released_because from runs where status = 'finished' and "
        "released_because is not null"
    )
    return frozenset(connection.execute(shown).fetchall())
