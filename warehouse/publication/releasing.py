"""Publishes withheld runs that a person has released, as long as their results are the released ones."""

from typing import TYPE_CHECKING

from schemas.night.release import results_digest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def apply_releases(connection: "DuckDBPyConnection") -> frozenset[str]:
    """Mark released runs as finished and put the person's word beside them; returns runs that are shown now, or no longer.

    A release lapses when its run has other results. Its row in `releases` stays.
    """
    before = _released(connection)
    connection.execute("update runs set status = 'withheld', released_because = null where released_because is not null")
    for run_id, because, digest, state, finished_at in connection.execute(
        "select runs.run_id, releases.because, releases.results_digest, runs.state, runs.finished_at from runs"
        " inner join releases on runs.run_id = releases.run_id where runs.status = 'withheld' order by runs.run_id"
    ).fetchall():
        if results_digest(((pair["key"], pair["value"]) for pair in state), finished_at) == digest:
            connection.execute("update runs set status = 'finished', released_because = ? where run_id = ?", [because, run_id])
    return before ^ _released(connection)


def _released(connection: "DuckDBPyConnection") -> frozenset[str]:
    rows = connection.execute("select run_id from runs where status = 'finished' and released_because is not null").fetchall()
    return frozenset(run_id for (run_id,) in rows)
