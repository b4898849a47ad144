"""A parent that is killed while bwrap sets up a sandbox leaves processes that only the next Parley
can end.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.host import abandoned

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
PARENT = """
import sys
from pathlib import Path
from sandbox import registry
from schemas.run import Limits
with registry.load("bubblewrap", slot_directory=Path(sys.argv[1]), slots=64).session(Limits(wall_s=60)) as session:
    print("ready", flush=True)
    while True:
        session.run(("{python}", "-S", "-c", "import time; time.sleep(0.03)"))
"""


def of(pid: int) -> list[int]:
    return [bwrap for bwrap, mark in abandoned._marked() if int(mark["pid"]) == pid]


def test_sandboxes_of_a_killed_parent_are_ended_and_others_are_not(
    bubblewrap: BubblewrapSandbox, tmp_path: Path
) -> None:
    command = (sys.executable, "-c", PARENT, str(tmp_path))
    parents = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    living, *killed = parents
    try:
        for parent in parents:
            assert parent.stdout is not None
            assert parent.stdout.readline() == "ready\n"
        for parent in killed:
            time.sleep(random.uniform(0, 0.05))  # anywhere in a program's life
            parent.send_signal(signal.SIGKILL)
            parent.wait()
        abandoned.end_abandoned.__wrapped__()  # as in a new process
        deadline = time.monotonic() + 60
        while any(of(parent.pid) for parent in killed):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        while not of(living.pid):
            assert living.poll() is None
            assert time.monotonic() < deadline
    finally:
        for parent in parents:
            parent.kill()
            parent.communicate()
        abandoned.end_abandoned.__wrapped__()


def test_a_bwrap_that_is_killed_in_its_set_up_leaves_no_child(
    bubblewrap: BubblewrapSandbox,
) -> None:
    mark = abandoned.new_mark()
    command = (
        "bwrap",
        *abandoned.mark_arguments(mark),
        "--unshare-pid",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "sleep",
        "60",
    )
    for delay_s in (0.0, 0.002, 0.004, 0.006, 0.008):
        with subprocess.Popen(command) as bwrap:
            time.sleep(delay_s)
            bwrap.kill()
    abandoned.end_marked(mark)
    deadline = time.monotonic() + 60
    while any(found.group() == mark for _, found in abandoned._marked()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_sandbox_of_another_pid_namespace_is_not_ours_to_judge(
    bubblewrap: BubblewrapSandbox,
) -> None:
    """Seen from its host, a container's Parley has another pid than the one that its mark says."""
    for namespace, is_ended in (("1", False), (str(abandoned.pid_namespace()), True)):
        mark = f"PARLEY_SUPERVISOR_{namespace}_{os.getpid()}_1_0"
        arguments = (
            "bwrap",
            *abandoned.mark_arguments(mark),
            "--die-with-parent",
            "--ro-bind",
            "/",
            "/",
            "sleep",
            "60",
        )
        with subprocess.Popen(arguments) as bwrap:
            try:
                while (
                    not any(found.group() == mark for _, found in abandoned._marked())
                    and bwrap.poll() is None
                ):
                    time.sleep(0.01)
                abandoned.end_abandoned.__wrapped__()
                if is_ended:
                    assert bwrap.wait(30) == -signal.SIGKILL
                else:
                    assert bwrap.poll() is None
            finally:
                bwrap.kill()
