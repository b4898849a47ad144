"""Finds a run of the lake by its id, as a person types it."""

from schemas.errors import UsageError
from schemas.lake.records import RunRecord
from schemas.lake.rows import from_arrow
from schemas.run import RunSpec
from tasks.storage.parquet_store import Lake


def find_run(lake: Lake, run_id: str) -> RunRecord:
    """The record of a run, by its id or an unambiguous beginning of it.

    Raises:
        UsageError: no run or several runs begin like this.
    """
    folders = sorted({part.parent for part in lake.parts("runs")})
    found = [folder for folder in folders if folder.name.removeprefix("run=").startswith(run_id)]
    if len(found) != 1:
        names = ", ".join(folder.name.removeprefix("run=") for folder in (found or folders)[:8])
        if found:
            raise UsageError(
                f"several runs in {lake.root} begin with {run_id!r}: {names}. Type more of the id"
            )
        known = (
            f"known: {names}. `parley list runs` shows all"
            if names
            else "it holds no runs yet. `parley run` makes one"
        )
        raise UsageError(f"no run {run_id!r} in {lake.root}; {known}")
    return from_arrow(lake.read_arrow("runs", sorted(found[0].glob("part-*.parquet"))), RunRecord)[
        0
    ]


def resumed_spec(lake: Lake, run_id: str | None) -> RunSpec | None:
    """Return the spec of the run that a request resumes, or None if it resumes none."""
    return None if run_id is None else RunSpec.model_validate_json(find_run(lake, run_id).spec_json)
