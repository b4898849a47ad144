"""The Dask cluster: private and quiet workers, none left behind, and no mix-up of packages."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows.orchestration.dask_cluster import dask_cluster, named_address
from flows.orchestration.packages import ROOT
from schemas.errors import ConfigError, ServerUnavailable
from tasks.driver.fan_out import fan_out
from tests.flows.drivers import driver, family, living, wait_until_gone

pytestmark = pytest.mark.slow

BUSY = """
import json, os, sys, time
from pathlib import Path
from flows.orchestration.server import starting_prefect_server
from tasks.driver.signals import signals_end_cleanly
from flows.orchestration.dask_cluster import dask_cluster
home = Path(sys.argv[1])
try:
    with signals_end_cleanly(), starting_prefect_server(home) as pending:
        with dask_cluster(n_workers=2, threads_per_worker=2, scratch=home / "dask") as cluster:
            client, server = cluster.wait_ready(), pending.wait_ready()
            tasks = [client.submit(time.sleep, 60 + n) for n in range(4)]
            while sum(map(len, client.processing().values())) < 4:
                time.sleep(0.05)
            print(json.dumps(server.pid), flush=True)
            while not all(task.done() for task in tasks):
                time.sleep(0.05)
except KeyboardInterrupt:
    sys.exit(130)
"""
CHECK = (
    "import json; from flows.orchestration.packages import verify_packages\ntry:\n    "
    "verify_packages(); print('null')\n"
)
CHECK += "except Exception as error:\n    print(json.dumps([type(error).__name__, str(error)]))"


def worker_state() -> dict[str, Any]:
    """What a worker process looks like from inside."""
    return {
        "keys": sorted(name for name in os.environ if name.endswith("_API_KEY")),
        "ctrl_c": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
        "prefect": "prefect" in sys.modules,
        "modules": [name for name in ("decimal", "colorsys") if name in sys.modules],
    }


def test_workers_are_private_warm_and_on_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "needed")
    monkeypatch.setenv("OTHER_API_KEY", "not needed")
    with dask_cluster(
        n_workers=2, threads_per_worker=4, scratch=tmp_path, secret_names=("OPENAI_API_KEY",)
    ) as cluster:
        client = cluster.wait_ready(("colorsys",))
        states = list(client.run(worker_state).values())
        assert len(states) == 2
        for state in states:
            assert state["keys"] == ["OPENAI_API_KEY"]
            assert state["ctrl_c"]
            assert not state["prefect"]
            assert "colorsys" in state["modules"]
        assert client.gather(client.map(abs, range(-100, 0))) == list(range(100, 0, -1))
        me = psutil.Process()
        sockets = [
            s
            for process in (me, *me.children(recursive=True))
            for s in process.net_connections("inet")
        ]
        assert {s.laddr.ip for s in sockets if s.status == psutil.CONN_LISTEN} <= {"127.0.0.1"}
        with pytest.raises(ServerUnavailable, match="no_such_module"):
            cluster.wait_ready(("no_such_module",))


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_by_one_as_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_API_KEY", "not needed")
    with dask_cluster(n_workers=1, threads_per_worker=1, scratch=tmp_path) as cluster:
        client = cluster.wait_ready()
        (first,) = client.run(os.getpid).values()
        os.kill(first, signal.SIGKILL)
        assert client.submit(os.getpid).result(timeout=60) != first
        (state,) = client.run(worker_state).values()
        assert state["keys"] == []
        assert state["ctrl_c"]


def dies_once(mark: str) -> int:
    """Kill the worker process that runs this, unless one was killed already."""
    if not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def test_shards_that_were_dealt_to_a_worker_run_although_all_died_at_once(tmp_path: Path) -> None:
    with dask_cluster(n_workers=1, threads_per_worker=1, scratch=tmp_path) as cluster:
        client = cluster.wait_ready()
        results, lost = fan_out(client, dies_once, [str(tmp_path / "killed")] * 4, in_turn=True)
    assert (len(results), lost) == (4, [])


@pytest.mark.parametrize(
    ("order", "status"),
    [
        (signal.SIGKILL, -signal.SIGKILL),
        pytest.param(signal.SIGTERM, 128 + signal.SIGTERM, marks=pytest.mark.long),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.long),
    ],
)
def test_nothing_is_left_of_a_driver_that_was_ended_in_the_middle(
    home: Path, order: signal.Signals, status: int
) -> None:
    with driver(BUSY, home) as busy:
        server = psutil.Process(busy.hear())
        processes = [server, *family(busy.process)]
        assert len(living(processes)) >= 4
        os.killpg(busy.process.pid, order)
        said = busy.finish()
        assert busy.process.returncode == status
        assert wait_until_gone(processes) == []
    if order != signal.SIGKILL:
        assert said == ""


def test_what_closes_after_the_cluster_tells_nothing_of_it(tmp_path: Path) -> None:
    with dask_cluster(n_workers=1, threads_per_worker=1, scratch=tmp_path) as cluster:
        cluster.wait_ready()
    assert not logging.getLogger("distributed.batched").isEnabledFor(logging.ERROR)


@pytest.mark.parametrize("name", ["tasks", "schemas"])
def test_a_file_that_hides_a_package_is_named(tmp_path: Path, name: str) -> None:
    obstacle = tmp_path / f"{name}.py"
    obstacle.write_text("raise RuntimeError('not for Parley')", encoding="utf-8")
    with driver(CHECK, cwd=tmp_path) as check:
        kind, message = check.hear()
    assert kind == "ConfigError"
    assert str(obstacle) in message
    assert "Rename" in message


def test_our_own_packages_are_accepted(tmp_path: Path) -> None:
    with driver(CHECK, cwd=tmp_path) as check:
        assert check.hear() is None


def profilers(dask_worker: Any) -> list[str]:
    """What looks at all threads of a worker again and again.

    The 3.11 of some machines stops for ever by it.
    """
    return [name for name in dask_worker.periodic_callbacks if "profile" in name]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster is started by the test, and may take its time."""
    monkeypatch.setattr("flows.orchestration.dask_cluster.CONNECT_LIMIT_S", 120)


@contextmanager
def named_cluster(folder: Path) -> Iterator[str]:
    """A scheduler and a worker, started by hand in a folder, as on a cluster."""
    address_file = folder / "scheduler.json"
    common = {
        "cwd": folder,
        "env": {**os.environ, "PYTHONPATH": str(ROOT)},
        "stderr": subprocess.DEVNULL,
        "start_new_session": True,
    }
    dask = (sys.executable, "-m", "distributed.cli")
    at = ("--scheduler-file", str(address_file), "--host", "127.0.0.1", "--no-dashboard")
    commands = (
        (*dask[:2], "distributed.cli.dask_scheduler", *at, "--port", "0"),
        (*dask[:2], "distributed.cli.dask_worker", *at, "--no-nanny", "--nthreads", "1"),
    )
    processes = [subprocess.Popen(command, **common) for command in commands]
    try:
        deadline = time.monotonic() + 120
        while not (address_file.exists() and address_file.read_text().rstrip().endswith("}")):
            assert time.monotonic() < deadline, "the scheduler did not start"
            time.sleep(0.05)
        yield json.loads(address_file.read_text())["address"]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


@pytest.mark.usefixtures("patient")
def test_a_named_cluster_is_used_and_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with named_cluster(tmp_path) as address:
        monkeypatch.setenv("PARLEY_DASK_ADDRESS", address)
        for _ in range(2):
            with dask_cluster(
                n_workers=7, threads_per_worker=1, scratch=tmp_path / "unused"
            ) as cluster:
                client = cluster.wait_ready()
                assert client.submit(os.getpid).result(timeout=120) not in {
                    os.getpid(),
                    *psutil.Process().children(),
                }
                assert client.scheduler.address == address
                if sys.version_info < (3, 12):
                    assert client.run(profilers) == {worker: [] for worker in client.nthreads()}
        assert not (tmp_path / "unused").exists()


@pytest.mark.usefixtures("patient")
def test_a_named_cluster_whose_workers_would_import_somebody_elses_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flows.py").write_text("raise RuntimeError('not for Parley')", encoding="utf-8")
    with named_cluster(tmp_path) as address:
        monkeypatch.setenv("PARLEY_DASK_ADDRESS", address)
        with pytest.raises(
            ConfigError, match=rf"'flows' in Dask worker .* imported from {tmp_path}"
        ):
            with dask_cluster(n_workers=1, threads_per_worker=1, scratch=tmp_path):
                pass


def test_a_dead_address_is_named_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.orchestration.dask_cluster.CONNECT_LIMIT_S", 1)
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        monkeypatch.setenv(
            "PARLEY_DASK_ADDRESS", f"tcp://127.0.0.1:{nobody_listens.getsockname()[1]}"
        )
        begun = time.monotonic()
        with pytest.raises(
            ServerUnavailable, match=r"PARLEY_DASK_ADDRESS=.*unset PARLEY_DASK_ADDRESS"
        ):
            with dask_cluster(n_workers=1, threads_per_worker=1, scratch=tmp_path):
                pass
        assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    "address",
    [
        "garbage",
        "nonsense://x:1",
        "tcp://",
        "tcp://x",
        "host:port",
        "tcp://a b:1",
        "http://x:8787/status",
    ],
)
def test_what_is_no_address_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("PARLEY_DASK_ADDRESS", address)
    with pytest.raises(
        ConfigError, match=r"PARLEY_DASK_ADDRESS=.* is not the address .* Set it to tcp://HOST:PORT"
    ):
        with dask_cluster(n_workers=1, threads_per_worker=1, scratch=tmp_path):
            pass


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:8786", "tls://scheduler.night.svc:8786", "scheduler:8786", "tcp://[::1]:1"],
)
def test_an_address_is_one(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("PARLEY_DASK_ADDRESS", address)
    assert named_address() == address
