"""The answers of `parley why-rerun`."""

import json
from collections.abc import Sequence

from schemas.lake.records import RunRecord
from schemas.night.work import Difference
from schemas.outside.display import plain_difference
from schemas.run import RunSpec
from tasks.planning.known_runs import find_run
from tasks.planning.why_rerun import compare
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake

_COLUMNS = ("field", "before", "after", "makes anew")
_SHOWN = 500
"""Characters of a value: around the difference where it is longer; `--json` has all of it."""


def explain(home: Home, run_a: str, run_b: str | None = None, *, json_output: bool = False) -> None:
    """Print the fields in which two runs differ. For one run, or one given twice: why its latest invocation worked on it.

    Raises:
        UsageError: no such run, or several.
    """
    lake = Lake(home.lake)
    before = find_run(lake, run_a)
    after = before if run_b is None else find_run(lake, run_b)
    if before.run_id == after.run_id:
        found, said = before.work.why if before.work else (), _of_one(before)
    else:
        outside = {**dict(after.state), "parley_version": after.parley_version}
        found = compare(lake, before, RunSpec.model_validate_json(after.spec_json), outside)
        said = f"Run {after.run_id[:12]} beside run {before.run_id[:12]}"
    if json_output:
        print(json.dumps([difference.model_dump() for difference in found]))
    else:
        _print(said, found)


def _of_one(record: RunRecord) -> str:
    name, work = f"Run {record.run_id[:12]}", record.work
    if work is None or work.compared_with is None:
        return f"{name}, {record.started_at}: the first of this model on this setting, there was nothing to reuse"
    if work.compared_with == record.run_id:
        return f"{name}, worked on again at {record.started_at}, compared with its earlier state"
    return f"{name}, new at {record.started_at}, compared with the latest of its model and setting, {work.compared_with[:12]}"


def _print(said: str, found: Sequence[Difference]) -> None:
    if not found:
        print(f"{said}: no ingredient differs.")
        return
    from flows.text.results import print_rows

    print(f"{said}:")
    print_rows(
        "",
        _COLUMNS,
        [(d.field, *plain_difference(d.before, d.after, _SHOWN), d.reruns) for d in found],
    )
    print(
        "A renewed layer renews all later ones. Their order: dialogues, tests, judgements, scores."
    )
