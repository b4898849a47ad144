"""No zygote outlives the process that it works for, however that ends; and an ordinary user's
zygotes isolate, too.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.host import abandoned, resource_limits
from tests.sandbox.backends.test_cleanup import own_cgroups
from tests.sandbox.host.test_secrets import NEEDS_NUMPY, SCRIPT, run_as_nobody

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
PARENT = """
import sys, threading
from pathlib import Path
from sandbox import registry
from schemas.run import Limits
sandbox = registry.load("zygote", slot_directory=Path(sys.argv[1]), slots=2)
def run(program):
    with sandbox.session(Limits(cpu_s=60, wall_s=60)) as session:
        session.run(("{python}", "-S", "-c", program))
run("pass")
if sys.argv[2] == "busy":
    threading.Thread(target=run, args=("import os, time; os.fork(); os.setsid(); time.sleep(60)",), daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""
SLOW = (
    "cpu_time_is_limited",
    "cpu_limit_cannot_be_ignored",
    "wall_time_is_limited",
    "output_is_bounded",
)


def zygotes_of(pid: int) -> list[int]:
    return [bwrap for bwrap, mark in abandoned._marked() if int(mark["pid"]) == pid]


@pytest.mark.parametrize(
    ("does", "ends_by"),
    [("idle", "end"), ("idle", "kill"), ("busy", "kill"), ("busy", "interrupt")],
)
def test_no_zygote_outlives_its_process(
    bubblewrap: BubblewrapSandbox, tmp_path: Path, does: str, ends_by: str
) -> None:
    command = (sys.executable, "-c", PARENT, str(tmp_path), does)
    parent = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        assert zygotes_of(parent.pid)
        if ends_by == "end":
            parent.stdin.close()
        else:
            parent.send_signal(signal.SIGKILL if ends_by == "kill" else signal.SIGINT)
        parent.wait(60)
        deadline = time.monotonic() + 60
        while zygotes_of(parent.pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        parent.kill()
        parent.wait()
    while own_cgroups(parent.pid):  # the last of its processes may still be on their way out
        assert time.monotonic() < deadline
        resource_limits.remove_abandoned()  # as the next Parley does


def test_an_ordinary_users_zygote_isolates(bubblewrap: BubblewrapSandbox) -> None:
    """Both of its processes: the one that runs commands, and the one with the libraries, which runs
    programs with their tests.
    """
    script = SCRIPT.replace(
        'load("bubblewrap")', 'load("zygote", preload=("unittest.mock", "numpy"))'
    )
    run_as_nobody(script % ((*NEEDS_NUMPY, *SLOW),), "zygote-user")
