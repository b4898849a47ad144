"""A standing Prefect server on PostgreSQL, as the page of `flows/orchestration` describes it, and a
run that is kept there.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.flows.parley_command import SAMPLE, parley

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
LIMIT_S = 300
_PLACES = os.pathsep.join(
    (os.environ.get("PATH", ""), *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"))))
)


def _program(name: str) -> str:
    found = shutil.which(name, path=_PLACES)
    if found is None:
        pytest.skip(f"the program {name} is not installed (Debian: apt-get install postgresql)")
    return found


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return asked.getsockname()[1]


def _until(is_so: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert process.poll() is None, f"it ended with status {process.returncode}"
        assert time.monotonic() < deadline, "it did not start"
        time.sleep(0.3)


@contextmanager
def _running(command: list[str], **environ: str) -> "Iterator[subprocess.Popen[bytes]]":
    """A process that ends with the block, or with this process."""
    with_us = ["setpriv", "--pdeathsig", "INT", *command]
    process = subprocess.Popen(
        with_us, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={**os.environ, **environ}
    )
    try:
        yield process
    finally:
        process.send_signal(2)
        try:
            process.wait(60)
        finally:
            process.kill()


@pytest.fixture
def database() -> Iterator[str]:
    """Address of a database on loopback; its server runs as an ordinary user, in a folder that goes
    with it.
    """
    initdb, postgres = _program("initdb"), _program("postgres")
    folder = Path(tempfile.mkdtemp(prefix="parley-postgres-"))
    user: list[str] = []
    if os.geteuid() == 0:  # it refuses to serve root
        shutil.chown(folder, "nobody", "nogroup")
        user = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
    data, port = str(folder / "data"), str(_free_port())
    try:
        made = subprocess.run(
            [*user, initdb, "-D", data, "-U", "parley", "--auth", "trust", "--no-sync"],
            capture_output=True,
            text=True,
            cwd=folder,
        )
        assert made.returncode == 0, made.stderr
        place = [
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            f"unix_socket_directories={folder}",
            "-c",
            "fsync=off",
            "-p",
            port,
        ]
        with _running([*user, postgres, "-D", data, *place]) as process:
            _until(lambda: socket.socket().connect_ex(("127.0.0.1", int(port))) == 0, process)
            yield f"postgresql+asyncpg://parley@127.0.0.1:{port}/postgres"
    finally:
        shutil.rmtree(folder)


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_runs_are_kept_in_postgres(database: str, home: Path, tmp_path: Path) -> None:
    psql, port = _program("psql"), str(_free_port())
    api = f"http://127.0.0.1:{port}/api"
    server = [
        sys.executable,
        "-m",
        "prefect",
        "server",
        "start",
        "--host",
        "127.0.0.1",
        "--port",
        port,
    ]
    settings = {
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
    with _running(server, **settings) as process:
        _until(lambda: _answers(f"{api}/health"), process)
        done = parley(home, *SAMPLE, "--model", "control:gold", environ={"PREFECT_API_URL": api})
        assert done.code == 0, done.err
        address = database.replace("+asyncpg", "")
        query = (
            "select f.name, r.state_type from flow_run r join flow f on f.id = r.flow_id order by 1"
        )
        kept = subprocess.run(
            [psql, "-At", address, "-c", query], capture_output=True, text=True, check=True
        )
    assert set(kept.stdout.split()) == {
        f"{name}|COMPLETED" for name in ("nightly", "evaluate_model", "publish_results")
    }
