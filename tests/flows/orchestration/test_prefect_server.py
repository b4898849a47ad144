"""One server per home: shared by simultaneous commands, ended with the last of them, left behind by
none.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from flows.orchestration import server as servers
from flows.orchestration.processes import is_alive, looks_secret, start_mark, without_secrets
from flows.orchestration.server import (
    server_status,
    start_server,
    starting_prefect_server,
    stop_server,
)
from flows.orchestration.server_process import has_current_schema
from flows.orchestration.settings import database_template
from schemas.errors import ServerUnavailable, UsageError
from tests.flows.drivers import driver, living, wait_until_gone
from tests.prefect_servers import prefect_server

pytestmark = pytest.mark.slow

USER = """
import dataclasses, json, sys
from pathlib import Path
from tests.prefect_servers import prefect_server
from tasks.driver.signals import signals_end_cleanly
with signals_end_cleanly(), prefect_server(Path(sys.argv[1]), secret_names=("MY_MODEL",)) as server:
    print(json.dumps(dataclasses.asdict(server)), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def standing_home(home: Path) -> Iterator[Path]:
    """A home whose standing server is stopped at the end, whatever the test did."""
    yield home
    stop_server(home, force=True)


def task_runs() -> list[tuple[str, str]]:
    from prefect.client.orchestration import SyncPrefectClient, get_client

    with get_client(sync_client=True) as client:
        assert isinstance(client, SyncPrefectClient)
        answer = client.request("POST", "/task_runs/filter", json={})
        return sorted((run["name"], run["state_name"]) for run in answer.json())


@pytest.mark.long
def test_flows_of_this_process_use_the_server_until_the_block_ends(home: Path) -> None:
    from prefect import flow, task
    from prefect.settings import get_current_settings

    @flow
    def heartbeat_s() -> int | None:
        return get_current_settings().flows.heartbeat_frequency

    @task(task_run_name="add {n}")
    def add(n: int) -> int:
        return n + 1

    @flow
    def adding() -> int:
        return add(1) + add(2)

    with prefect_server(home) as server:
        assert server.owned
        assert os.environ["PREFECT_API_URL"] == server.api_url
        assert adding() == 5
        assert server.pid is not None
        process = psutil.Process(server.pid)
    assert wait_until_gone([process]) == []
    assert "PREFECT_API_URL" not in os.environ
    assert server_status(home) is None

    with prefect_server(home) as later:
        assert later.pid != server.pid
        with later.flow_settings():
            assert heartbeat_s() is None
        assert heartbeat_s() is not None
        assert task_runs() == [("add 1", "Completed"), ("add 2", "Completed")]
        assert adding() == 5
    assert not (home / "prefect" / "server.json").exists()


@pytest.mark.long
def test_the_first_server_of_a_machine_makes_its_database_and_leaves_it_to_the_next_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("first", "second"):
        with prefect_server(tmp_path / name):
            assert task_runs() == []
        (template,) = (tmp_path / "cache" / "parley").iterdir()
        assert template == database_template()


@pytest.mark.long
def test_commands_at_once_share_one_server_which_outlives_the_one_that_started_it(
    home: Path,
) -> None:
    with driver(USER, home) as first, driver(USER, home) as second:
        seen = [first.hear(), second.hear()]
        assert seen[0]["pid"] == seen[1]["pid"]
        assert sorted(server["owned"] for server in seen) == [False, True]
        starter, other = (first, second) if seen[0]["owned"] else (second, first)
        server = psutil.Process(seen[0]["pid"])
        assert starter.finish() == ""
        time.sleep(1.5)
        status = server_status(home)
        assert status is not None
        assert status.pid == server.pid
        assert other.finish() == ""
        assert wait_until_gone([server]) == []


def test_a_left_server_ends_within_the_block_and_the_next_one_starts_after_it(
    standing_home: Path,
) -> None:
    with ThreadPoolExecutor() as pool:
        with starting_prefect_server(standing_home) as pending:
            left = pending.wait_ready()
            assert left.pid is not None
            process = psutil.Process(left.pid)
            pending.leave()
            pending.leave()
            following = pool.submit(start_server, standing_home)
            assert wait_until_gone([process]) == []
            assert not following.done()
        assert following.result().pid != left.pid


def test_a_killed_command_leaves_no_server_and_the_next_starts_at_once(home: Path) -> None:
    with driver(USER, home) as killed:
        before = killed.hear()
        server = psutil.Process(before["pid"])
        killed.process.kill()
        with driver(USER, home) as following:
            after = following.hear()
            assert following.finish() == ""
    assert after["pid"] == before["pid"] or not living([server])
    assert wait_until_gone([server]) == []


@pytest.mark.long
def test_a_terminated_command_ends_its_server_and_says_nothing(home: Path) -> None:
    with driver(USER, home) as terminated:
        server = psutil.Process(terminated.hear()["pid"])
        terminated.process.send_signal(signal.SIGTERM)
        assert terminated.finish() == ""
        assert terminated.process.returncode == 128 + signal.SIGTERM
    assert wait_until_gone([server]) == []


def test_the_server_sees_no_keys(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-1")
    monkeypatch.setenv("MY_MODEL", "k-2")
    with driver(USER, home) as command:
        seen = psutil.Process(command.hear()["pid"]).environ()
        command.finish()
    assert "PATH" in seen
    assert not {"k-1", "k-2"} & set(seen.values())


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "github_token"]
)
def test_names_of_keys_are_known(name: str) -> None:
    assert looks_secret(name)
    assert without_secrets({name: "x", "PATH": "y"}) == {"PATH": "y"}
    assert without_secrets({name: "x", "PATH": "y"}, keep=(name,)) == {name: "x", "PATH": "y"}


@pytest.mark.parametrize(
    "name", ["PATH", "TOKENIZERS_PARALLELISM", "KEYBOARD", "PREFECT_API_KEY", "HOME"]
)
def test_other_names_stay(name: str) -> None:
    assert without_secrets({name: "x"}) == {name: "x"}
    assert without_secrets({name: "x"}, drop=(name,)) == {}


@pytest.mark.long
def test_writers_wait_for_each_other_and_none_is_refused(home: Path) -> None:
    """SQLite refuses who read first and writes after another one wrote.

    A refused client pauses for seconds.
    """
    import httpx

    with (
        prefect_server(home) as server,
        httpx.Client(base_url=f"{server.api_url}/", timeout=30) as client,
    ):
        flow = client.post("flows/", json={"name": "crowded"}).json()["id"]
        night = client.post("flow_runs/", json={"flow_id": flow}).json()["id"]

        def begin(number: int) -> int:
            made = {
                "flow_run_id": night,
                "task_key": "run",
                "dynamic_key": str(number),
                "state": {"type": "PENDING"},
            }
            return client.post("task_runs/", json=made).status_code

        with ThreadPoolExecutor(16) as pool:
            assert set(pool.map(begin, range(200))) == {201}


def test_a_standing_server_outlives_commands_until_it_is_stopped(standing_home: Path) -> None:
    home = standing_home
    started: list[servers.PrefectServer] = []
    thread = threading.Thread(target=lambda: started.append(start_server(home)))
    thread.start()
    thread.join()
    with prefect_server(home) as used:
        assert (used.pid, used.owned) == (started[0].pid, False)
        with pytest.raises(UsageError, match="in use"):
            stop_server(home)
    time.sleep(1.5)
    status = server_status(home)
    assert status is not None
    assert (status.pid, status.owned) == (started[0].pid, True)
    assert stop_server(home) is True
    assert server_status(home) is None
    assert stop_server(home) is False


@pytest.mark.long
def test_a_commands_server_can_be_made_to_stay(standing_home: Path) -> None:
    with driver(USER, standing_home) as command:
        pid = command.hear()["pid"]
        assert start_server(standing_home).pid == pid
        assert command.finish() == ""
    time.sleep(1.5)
    status = server_status(standing_home)
    assert status is not None
    assert status.pid == pid


def test_a_foreign_process_with_the_old_pid_is_left_alone(home: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as foreign:
        try:
            folder = home / "prefect"
            folder.mkdir(parents=True)
            stale = {
                "pid": foreign.pid,
                "mark": "another-boot/1",
                "port": 9,
                "owner": "server start",
                "host": os.uname().nodename,
            }
            (folder / "server.json").write_text(json.dumps(stale), encoding="utf-8")
            assert server_status(home) is None
            assert stop_server(home) is False
            assert foreign.poll() is None
        finally:
            foreign.kill()


def test_a_start_mark_tells_processes_apart() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        mark = start_mark(other.pid)
        assert mark is not None
        assert is_alive(other.pid, mark)
        assert not is_alive(os.getpid(), mark)
        other.kill()
        while other.poll() is None and is_alive(other.pid, mark):
            time.sleep(0.01)
        assert not is_alive(other.pid, mark)


def test_a_dead_configured_server_is_named_with_a_remedy(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with pytest.raises(ServerUnavailable, match=r"127\.0\.0\.1:9/api.*unset PREFECT_API_URL"):
        with prefect_server(home):
            pass
    assert not (home / "prefect").exists()


def test_a_server_that_cannot_start_says_why(home: Path) -> None:
    (home / "prefect").mkdir(parents=True)
    (home / "prefect" / "prefect.db").write_bytes(b"not a database " * 100)
    with pytest.raises(ServerUnavailable, match=r"ended while starting: .*server\.log"):
        with prefect_server(home):
            pass


def test_a_database_is_migrated_unless_its_schema_is_the_template_s(tmp_path: Path) -> None:
    def database(name: str, version: str) -> Path:
        with sqlite3.connect(tmp_path / name) as connection:
            connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
            connection.execute("INSERT INTO alembic_version VALUES (?)", (version,))
        connection.close()
        return tmp_path / name

    template, empty = database("template.db", "b2"), tmp_path / "empty.db"
    empty.touch()
    assert has_current_schema(database("same.db", "b2"), template)
    assert not has_current_schema(database("older.db", "a1"), template)
    assert not has_current_schema(empty, template)
    assert not has_current_schema(tmp_path / "missing.db", tmp_path / "missing.db")
