"""SIGKILL or SIGTERM at every named point; each next command goes on, and the end equals a night
that nothing interrupted.

One home is killed again and again, so that a night's fixed costs are paid once. Random moments:
`python -m tests.crash`.
"""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.driver.signals import END_LIMIT_S, INTERRUPTED, TERMINATED
from tests.crash.comparison import Tables, differences, leftovers, tables
from tests.crash.conftest import with_earlier_nights
from tests.crash.night import TURNS, Kill, Night, counting_server
from warehouse.connect import query

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.usefixtures("bubblewrap"),
]


@pytest.fixture
def night(tmp_path: Path, server_url: str) -> Iterator[Night]:
    with counting_server(max_seconds=1000) as counter:
        night = Night(tmp_path, counter, {"PREFECT_API_URL": server_url})
        with_earlier_nights(night.home)
        yield night


CONVERSE = (
    Kill("between turns", "worker", 30),
    Kill("between turns", "server", 10),
    Kill("between journal and shard", "worker"),
    Kill("before shard rename", "driver"),
)
EXECUTE = (
    Kill("after shard rename", "worker"),
    Kill("program started", "bwrap", 3),
    Kill("program started", "worker", 2),
    Kill("before verdicts rename", "driver", 2),
)
PUBLISH = ("scores written", "warehouse copied", "before warehouse rename")


def test_a_night_killed_at_every_named_point_equals_one_that_was_not(
    night: Night, uninterrupted: Tables
) -> None:
    standing = night.environ.pop("PREFECT_API_URL")
    assert night.run(CONVERSE).code == -9, "with a server of its own, which is killed, too"
    night.environ["PREFECT_API_URL"] = standing
    assert night.run(EXECUTE).code == -9
    for point in PUBLISH:
        assert night.run([Kill(point, "driver")]).code == -9
        assert query(night.home, "select count(*) from runs where benchmark = 'crash'")[1] == [
            (0,)
        ], "nothing is half published"
    assert night.run([Kill("after warehouse rename", "driver")]).code == -9
    assert differences(tables(night.home), uninterrupted) == []
    line = night.run().line()
    assert (line["episodes"], line["owed"], line["model_calls"], line["status"]) == (
        60,
        0,
        0,
        "finished",
    )
    assert differences(tables(night.home), uninterrupted) == []
    assert TURNS <= night.counter.calls() <= night.allowed
    assert leftovers(night.home, night.temporary, night.pids()) == []


TERM = (signal.SIGTERM,)
STOPS = (
    Kill("worker begins", "group", signals=TERM),
    Kill("worker begins", "driver", signals=TERM),
    Kill("stage stage", "driver", signals=TERM),
    Kill("stage stage", "group", signals=TERM),
    Kill("between turns", "timeout", 20, TERM),
    Kill("between turns", "driver", 20, TERM),
    Kill("before verdicts rename", "group", 2, TERM),
    Kill("before verdicts rename", "driver", 2, TERM),
    Kill("stage score", "driver", signals=(signal.SIGINT, signal.SIGINT)),
    Kill("stage score", "group", signals=TERM),
    Kill("before warehouse rename", "driver", signals=TERM),
    Kill("before warehouse rename", "group", signals=(*TERM, *TERM)),
)


def test_a_night_that_is_asked_to_stop_ends_soon_and_goes_on(
    night: Night, uninterrupted: Tables
) -> None:
    standing = night.environ.pop("PREFECT_API_URL")
    stop(night, Kill("after server rename", "driver", signals=TERM))
    night.environ["PREFECT_API_URL"] = standing
    for kill in STOPS:
        stop(night, kill)
    assert night.run().line()["status"] == "finished"
    assert differences(tables(night.home), uninterrupted) == []
    assert TURNS <= night.counter.calls() <= night.allowed
    assert leftovers(night.home, night.temporary, night.pids()) == []


def stop(night: Night, kill: Kill) -> None:
    """A night that is stopped as a container or `timeout` stops it: in time, with what to type, and
    without a process left.
    """
    ended = night.run([kill], (*night.arguments(), "--workers", "1"))
    assert time.monotonic() - night.happened[-1].at < END_LIMIT_S + 2, kill
    assert ended.code == (TERMINATED if signal.SIGTERM in kill.signals else INTERRUPTED), (
        f"{kill}: {ended}"
    )
    assert ended.err.count("resume with: parley run crash.six") == 1, f"{kill}: {ended}"
    assert not any(word in ended.err for word in ("Traceback", "leaked")), f"{kill}: {ended}"
