"""SIGKILL of the Prefect server under a command: it is started again, and the command does not
notice.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from flows.orchestration.server import server_status, stop_server
from tests.flows.drivers import wait_until_gone
from tests.prefect_servers import prefect_server

pytestmark = [pytest.mark.slow, pytest.mark.long]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_server_is_back_on_its_port_with_what_it_knew_and_a_stopped_one_is_not(
    home: Path,
) -> None:
    from prefect import flow
    from prefect.client.orchestration import SyncPrefectClient, get_client

    @flow(flow_run_name="before and after {n}")
    def counting(n: int) -> int:
        return n

    with prefect_server(home) as server:
        assert counting(1) == 1
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: (found := server_status(home)) is not None and found.pid != server.pid)
        assert counting(2) == 2
        again = server_status(home)
        assert again is not None
        assert (again.api_url, again.owned) == (server.api_url, False)
        with get_client(sync_client=True) as client:
            assert isinstance(client, SyncPrefectClient)
            runs = client.request("POST", "/flow_runs/filter", json={}).json()
            assert sorted(run["name"] for run in runs) == [
                "before and after 1",
                "before and after 2",
            ]
        process = psutil.Process(again.pid)
        assert stop_server(home, force=True), "on purpose, this time"
        time.sleep(1.2)  # two looks of the watch, which misses nothing
        assert server_status(home) is None
    assert wait_until_gone([process]) == []
