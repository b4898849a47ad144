"""Lookup of a run in the lake by its id, or by the beginning of its id."""

from schemas.errors import UsageError
from schemas.lake.records import RunRecord
from schemas.lake.rows import from_arrow
from schemas.run import RunSpec
from tasks.storage.parquet_store import Lake


def find_run(lake: Lake, run_id: str) -> RunRecord:
    """Return the record of the run whose id is `run_id` or begins with it.

    Raises:
        UsageError: the id of no run, or of several runs, begins with `run_id`.
    """
    folders = sorted({part.parent for part in lake.parts("runs")})
    matches = [folder for folder in folders if folder.name.removeprefix("run=").startswith(run_id)]
    if len(matches) != 1:
        names = ", ".join(folder.name.removeprefix("run=") for folder in (matches or folders)[:8])
        if matches:
            raise UsageError(
                f"several runs in {lake.root} begin with {run_id!r}: {names}. "
                "Type more digits of the id"
            )
        remedy = (
            f"known: {names}. `parley list runs` shows all"
            if names
            else "it contains no runs yet. `parley run` adds one"
        )
        raise UsageError(f"no run {run_id!r} in {lake.root}; {remedy}")
    parts = sorted(matches[0].glob("part-*.parquet"))
    return from_arrow(lake.read_arrow("runs", parts), RunRecord)[0]


def resumed_spec(lake: Lake, run_id: str | None) -> RunSpec | None:
    """Return the spec of the run that a request resumes; None if it resumes none."""
    return None if run_id is None else RunSpec.model_validate_json(find_run(lake, run_id).spec_json)
