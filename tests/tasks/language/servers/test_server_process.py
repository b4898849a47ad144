"""Model servers of our own: started from anywhere, ended with the block and with their parent,
however that ends.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from schemas.errors import ModelUnavailable
from tasks.language.servers.server_process import server_process
from tasks.language.servers.vllm_server import HUB_KEYS

ROOT = Path(__file__).resolve().parents[4]
CHILD = """
import argparse, threading, time
from tasks.language.servers.server_process import end_with_parent, report_ready, take_stdout
parser = argparse.ArgumentParser()
parser.add_argument("--parent", type=int)
parser.add_argument("--mood", default="well")
arguments = parser.parse_args()
report = take_stdout()
end_with_parent(arguments.parent, lambda: None)
print("chatter on stdout", flush=True)
if arguments.mood == "dies":
    raise SystemExit("no weights \\x1b]0;EVIL\\x07to be found")
if arguments.mood == "well":
    import os
    report_ready(report, f"pid:{os.getpid()}")
threading.Event().wait()
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a module that is found by PYTHONPATH: a server without a model."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "small_server.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    return "small_server"


@contextmanager
def running(child: str, log: Path, mood: str = "well", ready_s: float = 60.0) -> Iterator[int]:
    with server_process("m", child, ("--mood", mood), log, ready_s=ready_s) as address:
        yield int(address.removeprefix("pid:"))


def gone(pid: int, within_s: float = 30.0) -> bool:
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def test_it_ends_with_the_block_and_its_chatter_is_in_the_log(child: str, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "m.log"
    with running(child, log) as pid:
        assert psutil.pid_exists(pid)
    assert gone(pid)
    assert "chatter on stdout" in log.read_text()


def test_packages_in_the_working_directory_shadow_nothing(
    child: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tasks.py").write_text("raise ImportError('shadowed')")
    monkeypatch.chdir(tmp_path)
    with running(child, tmp_path / "m.log") as pid:
        assert psutil.pid_exists(pid)


@pytest.mark.slow
def test_it_outlives_the_thread_that_started_it(child: str, tmp_path: Path) -> None:
    context = running(child, tmp_path / "m.log")
    pids: list[int] = []
    thread = threading.Thread(target=lambda: pids.append(context.__enter__()))
    thread.start()
    thread.join(60)
    try:
        assert not gone(pids[0], within_s=1.0)
    finally:
        context.__exit__(None, None, None)
    assert gone(pids[0])


@pytest.mark.slow
def test_it_dies_with_a_parent_that_was_killed(child: str, tmp_path: Path) -> None:
    parent = (
        "import time; from pathlib import Path; from tasks.language.servers.server_process "
        "import server_process\n"
        f"with server_process('m', {child!r}, (), Path({str(tmp_path / 'm.log')!r}), "
        "ready_s=60) as address:\n"
        "    print(address, flush=True); time.sleep(60)"
    )
    paths = os.pathsep.join((str(ROOT), os.environ["PYTHONPATH"]))
    with subprocess.Popen(
        [sys.executable, "-c", parent],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline().removeprefix("pid:"))
        assert psutil.pid_exists(pid)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        assert gone(pid)


def test_a_server_that_ends_at_its_start_shows_its_log(child: str, tmp_path: Path) -> None:
    with pytest.raises(
        ModelUnavailable, match=r"ended at its start.*m\.log.*no weights .*to be found"
    ) as caught:
        with running(child, tmp_path / "m.log", "dies"):
            pass
    assert str(caught.value).isprintable()


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(),
    reason="no /proc here to read a process's environment from",
)
def test_a_server_is_given_no_keys_but_those_it_needs(
    child: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "MY_GATEWAY_TOKEN", "AWS_SECRET_ACCESS_KEY", "VLLM_API_KEY"):
        monkeypatch.setenv(name, "sk-SENTINEL")
    monkeypatch.setenv("HF_TOKEN", "hub-token")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for keys, needed in (((), False), (HUB_KEYS, True)):
        log = tmp_path / "m.log"
        with server_process("m", child, (), log, ready_s=60.0, keys=keys) as address:
            given = Path(f"/proc/{address.removeprefix('pid:')}/environ").read_bytes()
        assert b"SENTINEL" not in given
        assert (b"HF_TOKEN=hub-token" in given) is needed
        assert b"OMP_NUM_THREADS=1" in given


@pytest.mark.slow
def test_a_server_that_is_never_ready_is_ended(child: str, tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    with pytest.raises(ModelUnavailable, match=r"not ready within 1 s"):
        with running(child, tmp_path / "m.log", "silent", ready_s=1.0):
            pass
    assert set(psutil.Process().children()) <= before
