"""SIGKILL at every named point; each next command goes on, and the end equals a night that nothing interrupted.

One home is killed again and again, so that a night's fixed costs are paid once. Random moments: `python -m tests.crash`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.comparison import Tables, differences, leftovers, tables
from tests.crash.conftest import with_earlier_nights
from tests.crash.night import TURNS, Kill, Night, counting_server
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.usefixtures("bubblewrap")]


@pytest.fixture
def night(tmp_path: Path, server_url: str) -> Iterator[Night]:
    with counting_server(max_seconds=1000) as counter:
        night = Night(tmp_path, counter, {"PREFECT_API_URL": server_url})
        with_earlier_nights(night.home)
        yield night


CONVERSE = (
    Kill("between turns", "worker", 30),
    Kill("between turns", "server", 10),
    Kill("between journal and shard", "worker", 3),
    Kill("before shard rename", "driver"),
)
EXECUTE = (
    Kill("after shard rename", "worker"),
    Kill("program started", "bwrap", 3),
    Kill("program started", "worker", 2),
    Kill("before verdicts rename", "driver", 2),
)
PUBLISH = ("scores written", "warehouse copied", "before warehouse rename")


def test_a_night_killed_at_every_named_point_equals_one_that_was_not(night: Night, uninterrupted: Tables) -> None:
    standing = night.environ.pop("PREFECT_API_URL")
    assert night.run(CONVERSE).code == -9, "with a server of its own, which is killed, too"
    night.environ["PREFECT_API_URL"] = standing
    assert night.run(EXECUTE).code == -9
    for point in PUBLISH:
        assert night.run([Kill(point, "driver")]).code == -9
        assert query(night.home, "select count(*) from runs where benchmark = 'crash'")[1] == [(0,)], "nothing is half published"
    assert night.run([Kill("after warehouse rename", "driver")]).code == -9
    assert differences(tables(night.home), uninterrupted) == []
    line = night.run().line()
    assert (line["episodes"], line["owed"], line["model_calls"], line["status"]) == (60, 0, 0, "finished")
    assert differences(tables(night.home), uninterrupted) == []
    assert TURNS <= night.counter.calls() <= night.allowed
    assert leftovers(night.home, night.temporary, night.pids()) == []
