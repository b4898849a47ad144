"""How many programs run at once, and what becomes of one that the machine's own shortage ended."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.backends.bubblewrap.tool import why_no_sandbox
from sandbox.host import resource_limits, slots
from sandbox.host.slots import (
    alone,
    hold_slot,
    is_shortage,
    retried_alone,
    sandbox_fault,
    slot_count,
)
from sandbox.judging.runners.run import run_function_tests
from schemas.errors import HostShortage, SandboxUnavailable
from schemas.run import Limits

REPOSITORY = Path(__file__).resolve().parents[3]
MIB = 1024 * 1024


@contextmanager
def group_with(limit_mb: int) -> Iterator[Path]:
    """A memory cgroup of our own with a limit, for processes of a test."""
    place = resource_limits._writable_parent()
    if place is None or place[1] != 1:
        pytest.skip(
            "no memory cgroup (version 1) is writable here: a machine that is short cannot be made"
        )
    folder = place[0] / f"test-{os.getpid()}"
    folder.mkdir()
    try:
        for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
            if (folder / name).exists():
                (folder / name).write_text(str(limit_mb * MIB))
        yield folder
    finally:
        resource_limits._remove(folder)


def said_inside(group: Path, program: str, *arguments: str) -> str:
    """What a Python program prints that runs in a cgroup from its first statement on."""
    entered = f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')\n{program}"
    command = (sys.executable, "-c", entered, *arguments)
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_memory_bound_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    if resource_limits._writable_parent() is not None:
        assert (
            "bounds all processes of a program together" in resource_limits.describe_memory_bound()
        )
    monkeypatch.setattr(resource_limits, "_writable_parent", lambda: None)
    assert "each process of a program, not their sum" in resource_limits.describe_memory_bound()


def test_there_are_as_many_slots_as_cpus() -> None:
    assert slot_count() == slots.usable_cpus() <= len(os.sched_getaffinity(0))
    one_cpu = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    program = f"{one_cpu}\nfrom sandbox.host.slots import *\nprint(slot_count())"
    said = subprocess.run(
        (sys.executable, "-c", program), cwd=REPOSITORY, capture_output=True, text=True
    )
    assert said.stdout == "1\n", said.stderr


def test_a_quota_of_cpu_time_counts(tmp_path: Path) -> None:
    """Files as a container sees them: they cannot be had here without making one."""
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert slots._cpu_quota(tmp_path) == 1.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert slots._cpu_quota(tmp_path) is None
    (tmp_path / "cpu.max").unlink()
    (tmp_path / "cpu.cfs_quota_us").write_text("400000\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert slots._cpu_quota(tmp_path) == 4
    (tmp_path / "cpu.cfs_quota_us").write_text("-1\n")
    assert slots._cpu_quota(tmp_path) is None


def test_memory_is_the_machines_or_the_control_groups() -> None:
    machine = slots.available_mb()
    assert machine is not None
    assert 0 < machine <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB
    with group_with(300) as group:
        said = said_inside(
            group, "from sandbox.host.slots import available_mb\nprint(available_mb())"
        )
    assert 200 < int(said) < 300


@pytest.mark.slow
def test_memory_bounds_what_runs_at_once(tmp_path: Path) -> None:
    """Of eight threads that want 100 MiB each, in 300 MiB two run at once; each gets its turn.

    Each holds its slot until as many as expected are held, and a moment longer, in which one too
    many would come.
    """
    program = """
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from sandbox.host.slots import hold_slot
held, most, all_there = set(), [0], threading.Event()
def use(_):
    with hold_slot(8, Path(sys.argv[1]), int(sys.argv[2])) as slot:
        held.add(slot)
        most[0] = max(most[0], len(held))
        if len(held) >= int(sys.argv[3]): all_there.set()
        all_there.wait(30) or all_there.set()
        time.sleep(0.02)
        held.remove(slot)
with ThreadPoolExecutor(8) as pool: list(pool.map(use, range(16)))
print(most[0])
"""
    with group_with(300) as group:
        for memory_mb, at_once in (("100", "2"), ("10", "8"), ("5000", "1")):
            assert said_inside(group, program, str(tmp_path), memory_mb, at_once) == f"{at_once}\n"


def test_alone_means_no_other_program_on_the_host(tmp_path: Path) -> None:
    held: list[str] = []
    others_wait = threading.Event()

    def other() -> None:
        with hold_slot(3, tmp_path):
            held.append("other")

    with hold_slot(3, tmp_path):
        first = threading.Thread(target=other)
        first.start()
        first.join(60)
        assert held == ["other"]
    with alone(), hold_slot(3, tmp_path) as slot:
        assert slot == 0
        second = threading.Thread(target=other)
        second.start()
        others_wait.wait(0.1)
        assert held == ["other"]
    second.join(60)
    assert held == ["other", "other"]
    with hold_slot(3, tmp_path), hold_slot(3, tmp_path):
        pass  # all are free again


def test_a_process_prefers_the_slot_that_it_held_last(tmp_path: Path) -> None:
    with hold_slot(3, tmp_path) as first:
        with hold_slot(3, tmp_path) as second:
            assert second != first
        with hold_slot(3, tmp_path) as again:
            assert again == second
    with hold_slot(3, tmp_path) as again:
        assert again == second


def test_two_that_want_to_be_alone_take_turns(tmp_path: Path) -> None:
    inside: list[int] = []
    most = 0

    def use() -> None:
        nonlocal most
        for _ in range(20):
            with alone(), hold_slot(4, tmp_path):
                inside.append(1)
                most = max(most, len(inside))
                inside.pop()

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert most == 1
    assert not any(thread.is_alive() for thread in threads)


def test_who_waits_to_be_alone_is_not_passed_by(tmp_path: Path) -> None:
    """Two slots that are always wanted: the one who wants both gets them as soon as those who run
    have ended.
    """
    over, turns = threading.Event(), []

    def use() -> None:
        while not over.is_set():
            with hold_slot(2, tmp_path):
                turns.append(1)
                over.wait(0.002)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        begun = time.monotonic()
        while len(turns) <= len(threads):
            assert time.monotonic() < begun + 60, "the others do not get their turns"
            time.sleep(0.002)
        for _ in range(5):
            started = time.monotonic()
            with alone(), hold_slot(2, tmp_path):
                before = len(turns)
                over.wait(0.01)
                assert len(turns) == before
            assert time.monotonic() - started < 5, "passed by again and again"
    finally:
        over.set()
        for thread in threads:
            thread.join(60)


@pytest.mark.slow
def test_a_runner_that_does_not_start_in_its_time_is_tried_again_alone(
    bubblewrap: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[float] = []

    @contextmanager
    def counted() -> Iterator[None]:
        begun.append(time.monotonic())
        yield

    monkeypatch.setattr(slots, "alone", counted)
    monkeypatch.setattr("sandbox.judging.judged_run._READY", b"what no runner says")
    sandbox = BubblewrapSandbox(slot_directory=tmp_path)
    with pytest.raises(HostShortage, match="the test runner did not start"):
        run_function_tests(
            sandbox, "import time\ntime.sleep(60)", ("assert True",), Limits(cpu_s=1, wall_s=2)
        )
    assert len(begun) == 1


def short(number: int) -> SandboxUnavailable:
    fault = SandboxUnavailable("bubblewrap: cannot be started")
    fault.__cause__ = OSError(number, os.strerror(number))
    return fault


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (HostShortage("killed"), True),
        (short(errno.ENOMEM), True),
        (short(errno.EAGAIN), True),
        (short(errno.EMFILE), True),
        (short(errno.ENOENT), False),
        (short(errno.ENOSPC), False),
        (why_no_sandbox(-signal.SIGKILL, b""), True),
        (why_no_sandbox(-signal.SIGTERM, b""), False),
        (
            why_no_sandbox(
                1, b"bwrap: Creating new namespace failed: Resource temporarily unavailable\n"
            ),
            True,
        ),
        (why_no_sandbox(1, b"bwrap: Out of memory\n"), True),
        (
            why_no_sandbox(1, b"bwrap: Creating new namespace failed: Operation not permitted\n"),
            False,
        ),
        (
            sandbox_fault(
                "docker could not start a container", "runc: fork/exec: cannot allocate memory"
            ),
            True,
        ),
        (sandbox_fault("docker could not start a container", "no such image"), False),
        (SandboxUnavailable("the words alone say nothing: out of memory, overloaded"), False),
    ],
)
def test_what_counts_as_a_shortage(fault: SandboxUnavailable, expected: bool) -> None:
    assert is_shortage(fault) is expected


def test_a_shortage_is_retried_once_and_alone() -> None:
    seen: list[bool] = []

    @retried_alone
    def run(faults: int, kind: type[SandboxUnavailable] = HostShortage) -> str:
        seen.append(slots._is_alone.get())
        if len(seen) <= faults:
            raise kind("no memory was left")
        return "verdict"

    assert run(1) == "verdict"
    assert seen == [False, True]
    seen.clear()
    with pytest.raises(HostShortage):
        run(2)
    assert seen == [False, True]
    seen.clear()
    with pytest.raises(SandboxUnavailable):
        run(1, SandboxUnavailable)
    assert seen == [False]
    assert not slots._is_alone.get()


DRIVER = """
import json, subprocess, sys
from pathlib import Path
from sandbox.host import slots
from sandbox.registry import load
from sandbox.judging.runners.run import run_function_tests
from schemas.run import Limits
ballast = subprocess.Popen([sys.executable, "-c", sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
ballast.stdout.read(1)
alone = slots.alone
def alone_without_ballast():
    ballast.communicate()
    return alone()
slots.alone = alone_without_ballast
code = "def f():\\n    data = bytearray(360 << 20)\\n    data[::4096] = b'1' * len(data[::4096])\\n    return 1\\n"
sandbox = load(sys.argv[3], slots=2, slot_directory=Path(sys.argv[1]))
try:
    said = run_function_tests(sandbox, code, ("assert f() == 1",), Limits(cpu_s=10, wall_s=30, memory_mb=1024))
    print(json.dumps([said.outcome.value, said.detail, ballast.poll()]))
finally:
    ballast.kill()
    ballast.communicate()
"""
BALLAST = """
import sys
data = bytearray(180 << 20)
data[::4096] = b"1" * len(data[::4096])
sys.stdout.write("x"); sys.stdout.flush()
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["bubblewrap", "zygote"])
def test_a_program_that_the_machine_killed_runs_again_alone_and_passes(
    bubblewrap: object, tmp_path: Path, backend: str
) -> None:
    """A smaller neighbour holds memory of the machine (a control group above) until our program is
    to run a second time.
    """
    with group_with(500) as group:
        said = json.loads(
            said_inside(group, DRIVER, str(tmp_path), BALLAST, backend).splitlines()[-1]
        )
    assert said == ["passed", "", 0]
