"""A corrupted table withholds the run: exit 3, results kept, nothing of it in a mart.

Other corruptions: tests/corruptions.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.parley_command import Done, ask, parley

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]
Row = dict[str, Any]
RUN = ("run", "codeif.static", "--model", "control:gold", "--limit", "1")


def corrupt(home: Path, table: str, below: str, change: Callable[[list[Row]], list[Row]]) -> None:
    """Rewrite a table's parts whose path holds `below`, with their schema and its version kept."""
    parts = [p for p in (home / "lake" / table).rglob("part-*.parquet") if below in str(p)]
    assert parts
    for part in parts:
        data = pq.ParquetFile(part).read()
        pq.write_table(pa.Table.from_pylist(change(data.to_pylist()), schema=data.schema), part)


def assert_withheld(home: Path, done: Done, table: str, expectation: str) -> None:
    assert done.code == 3, done.err
    assert f"quality check {table}" in done.err
    failed = ask(
        home,
        (
            "SELECT run_id, expectation FROM quality_checks WHERE NOT success AND blocking AND "
            f"table_name = '{table}'"
        ),
    )
    assert expectation in {row["expectation"] for row in failed}
    run_id = failed[0]["run_id"]
    assert ask(
        home, f"SELECT status, docs_path IS NOT NULL AS docs FROM runs WHERE run_id = '{run_id}'"
    ) == [{"status": "withheld", "docs": True}]
    for mart in ("leaderboard", "codeif_turns", "scores", "test_verdicts", "turns"):
        assert ask(home, f"SELECT count(*) n FROM {mart} WHERE run_id = '{run_id}'") == [{"n": 0}]
    assert (
        home / ask(home, f"SELECT docs_path FROM runs WHERE run_id = '{run_id}'")[0]["docs_path"]
    ).is_file()


def without_last(rows: list[Row]) -> list[Row]:
    return rows[:-1]


@pytest.mark.long
def test_a_run_with_a_corrupted_table_is_withheld(standing_home: Path) -> None:
    run = (*RUN, "--dataset-version", "sample")
    line = parley(standing_home, *run, "--json").json()
    corrupt(standing_home, "test_verdicts", line["run_id"], without_last)
    done = parley(
        standing_home, *run, "--max-fault-share", "0.02"
    )  # another limit: the finished run is looked at again
    assert_withheld(standing_home, done, "test_verdicts", "due_verdict_present")
