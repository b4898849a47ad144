"""`parley why-rerun`: the differences between two runs."""

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

_COLUMNS = ("field", "before", "after", "invalidates")
_SHOWN = 500
"""Maximum characters of a value. Of a longer one the part around the difference is shown.

`--json` prints all.
"""


def explain(home: Home, run_a: str, run_b: str | None = None, *, json_output: bool = False) -> None:
    """Print the fields in which two runs differ.

    For a single run, print the changes because of which its latest invocation had work to do.

    Raises:
        UsageError: an id matches no run, or several.
    """
    lake = Lake(home.lake)
    before = find_run(lake, run_a)
    after = before if run_b is None else find_run(lake, run_b)
    if before.run_id == after.run_id:
        differences, title = before.work.why if before.work else (), _own_title(before)
    else:
        outside = {**dict(after.state), "parley_version": after.parley_version}
        differences = compare(lake, before, RunSpec.model_validate_json(after.spec_json), outside)
        title = f"Run {after.run_id[:12]} compared with run {before.run_id[:12]}"
    if json_output:
        print(json.dumps([difference.model_dump() for difference in differences]))
    else:
        _print(title, differences)


def _own_title(record: RunRecord) -> str:
    name, work = f"Run {record.run_id[:12]}", record.work
    if work is None or work.compared_with is None:
        return (
            f"{name}, {record.started_at}: the first run of this model on this setting, so"
            " nothing could be reused"
        )
    if work.compared_with == record.run_id:
        return f"{name}, resumed at {record.started_at}, compared with its earlier state"
    return (
        f"{name}, started at {record.started_at}, compared with the previous run of its model and"
        f" setting, {work.compared_with[:12]}"
    )


def _print(title: str, differences: Sequence[Difference]) -> None:
    if not differences:
        print(f"{title}: no field differs.")
        return
    from flows.text.results import print_rows

    print(f"{title}:")
    print_rows(
        "",
        _COLUMNS,
        [(d.field, *plain_difference(d.before, d.after, _SHOWN), d.reruns) for d in differences],
    )
    print(
        "Invalidating a layer invalidates all later layers. Order: dialogues, tests, judgements,"
        " scores."
    )
