"""What `make bench-warehouse` writes by hand is what the schemas say: a publication takes it."""

import json
from pathlib import Path

import duckdb
import pytest

from tests.bench.warehouse import Growth, publish_task
from tests.bench.warehouse_lake import RUNS_A_NIGHT


@pytest.mark.slow
def test_a_small_night_of_the_bench_is_published(tmp_path: Path) -> None:
    growth = Growth(tmp_path / "home", dialogs=3)
    growth.lake.write_night(1)
    assert json.dumps(publish_task(str(growth.home)))
    with duckdb.connect(str(growth.home / "warehouse.duckdb"), read_only=True) as connection:
        counted = (
            "select (select count(distinct run_id) from leaderboard), (select count(*) from turns)"
        )
        assert connection.execute(counted).fetchone() == (
            RUNS_A_NIGHT,
            growth.lake.turn_rows_a_night,
        )
