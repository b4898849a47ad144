"""Nothing is left on the host: no process, folder, cgroup or lock, however a run or its parent
ends.
"""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.backends.unisolated import UnisolatedSandbox
from sandbox.host import resource_limits as cgroups
from sandbox.host.slots import hold_slot
from sandbox.judging.runners.run import run_function_tests
from schemas.run import Limits
from schemas.verdict import Outcome

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[3]
LIMITS = Limits(cpu_s=1, wall_s=10)


def processes_with(mark: str) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "cmdline").read_text(errors="replace").split("\0"):
                    found.append(int(entry.name))
            except OSError:  # it has ended meanwhile
                continue
    return found


def own_cgroups(pid: int) -> list[Path]:
    place = cgroups._writable_parent()
    return list(place[0].glob(f"parley-{pid}-*")) if place else []


def wait_until_gone(mark: str) -> list[int]:
    deadline = time.monotonic() + 30
    while processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    return processes_with(mark)


@pytest.mark.parametrize(
    "code",
    ["print(1)", "while True: pass", "import os; os.fork(); os.fork(); os.setsid(); os._exit(0)"],
)
def test_a_run_leaves_nothing(
    bubblewrap: BubblewrapSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    descriptors = set(os.listdir("/proc/self/fd"))
    groups = own_cgroups(os.getpid())  # of warm zygotes that earlier tests left in this process
    with bubblewrap.session(LIMITS, keep_files=True) as session:
        session.run(("{python}", "-c", code, "parley-cleanup-mark"), files={"a": b"1"})
        assert processes_with("parley-cleanup-mark") == []
    assert own_cgroups(os.getpid()) == groups
    assert [p.name for p in tmp_path.iterdir()] == [f"parley-slots-{os.geteuid()}"]
    assert set(os.listdir("/proc/self/fd")) == descriptors
    for lock in tmp_path.glob("parley-slots-*/slot-*"):
        with lock.open() as file:
            fcntl.flock(
                file, fcntl.LOCK_EX | fcntl.LOCK_NB
            )  # raises BlockingIOError where it is still held


def test_the_unisolated_sandbox_removes_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert (
        run_function_tests(
            UnisolatedSandbox(), "def f(): return 1", ("assert f() == 1",), LIMITS
        ).outcome
        is Outcome.PASSED
    )
    assert [p.name for p in tmp_path.iterdir()] == [f"parley-slots-{os.geteuid()}"]


def test_a_killed_parent_takes_its_sandboxes_with_it(bubblewrap: BubblewrapSandbox, tmp_path: Path):
    mark = f"parley-kill-mark-{os.getpid()}"
    script = f"""
from pathlib import Path
from sandbox.registry import load
from schemas.run import Limits
sandbox = load("bubblewrap", slot_directory=Path({str(tmp_path)!r}), slots=1)
with sandbox.session(Limits(cpu_s=60, wall_s=60), keep_files=True) as session:
    session.run(("{{python}}", "-c", "import os, time; os.fork(); os.setsid(); time.sleep(60)", {mark!r}))
"""
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=REPOSITORY)
    try:
        deadline = time.monotonic() + 60
        while (
            len(processes_with(mark)) < 3 and time.monotonic() < deadline
        ):  # bwrap, its two halves, the program twice
            time.sleep(0.02)
        assert len(processes_with(mark)) >= 3
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert wait_until_gone(mark) == []
    started = time.monotonic()
    with hold_slot(1, tmp_path):
        assert time.monotonic() - started < 10, "its slot is not free"
    deadline = time.monotonic() + 30
    while own_cgroups(parent.pid):  # the last of its processes may still be on their way out
        assert time.monotonic() < deadline
        # as a new process: what the killed one left is removed
        cgroups._writable_parent.cache_clear()


def test_slots_bound_what_runs_at_once(tmp_path: Path):
    held: list[int] = []
    most, both_held = 0, threading.Event()

    def use(_: int) -> None:
        nonlocal most
        with hold_slot(2, tmp_path) as slot:
            held.append(slot)
            most = max(most, len(held))
            if len(held) == 2:
                both_held.set()
            assert both_held.wait(60)
            time.sleep(0.02)  # in which a third would come
            held.remove(slot)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(16)))
    assert most == 2


def test_threads_may_share_a_sandbox(bubblewrap: BubblewrapSandbox):
    def value(n: int) -> bytes:
        with bubblewrap.session(LIMITS) as session:
            return session.run(("{python}", "-S", "-c", f"print({n})")).stdout

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(value, range(24))) == [b"%d\n" % n for n in range(24)]
