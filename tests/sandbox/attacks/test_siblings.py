"""Two programs at the same time: neither finds the other's files, memory, sockets or processes, or
can signal it.
"""

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from sandbox.interface import Sandbox
from sandbox.judging.runners.run import run_function_tests
from schemas.run import Limits
from schemas.verdict import Outcome, ProgramVerdict
from tests.sandbox.attacks.host import MIB, hard_limit

pytestmark = pytest.mark.slow

VICTIM_MB, SPY_MB = 29, 31
VICTIM = """\
import ctypes, os, signal, socket, time
secret = "parley-" + "sibling" + "-secret"
for folder in (".", "/tmp", "/dev/shm"): open(f"{folder}/parley-sibling", "w").write(secret)
name = socket.socket(socket.AF_UNIX)
name.bind("\\0parley-sibling")
name.listen()
port = socket.create_server(("127.0.0.1", 47113))
ctypes.CDLL(None).shmget(0x5041524C, 4096, 0o1777)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
end = time.monotonic() + 25
while signal.SIGUSR1 not in signal.sigpending() and time.monotonic() < end: time.sleep(0.02)
def f(): return 1 if open("parley-sibling").read() == secret else 0
"""
"""It waits, with all of it in place, for the signal that the test sends from the host."""
SPY = """\
import ctypes, os, signal, socket, time
def found():
    for folder in (".", "/tmp", "/dev/shm", "/var/tmp", "/run"):
        if os.path.exists(f"{folder}/parley-sibling"): yield folder
    for family, address in ((socket.AF_UNIX, "\\0parley-sibling"), (socket.AF_INET, ("127.0.0.1", 47113))):
        try: socket.socket(family).connect(address); yield str(address)
        except OSError: pass
    if ctypes.CDLL(None).shmget(0x5041524C, 4096, 0) != -1: yield "shared memory"
def f():
    seen = []
    end = time.monotonic() + 0.3
    while time.monotonic() < end and not seen: seen = list(found())
    own = {os.getpid(), os.getppid(), 1}
    others = {int(p) for p in os.listdir("/proc") if p.isdigit()} - own
    for pid in range(2, 400):
        if pid not in own:
            try: os.kill(pid, signal.SIGKILL)
            except OSError: pass
    return seen, sorted(others)[:5] if len(others) > 4 else []
"""


def waiting_victims() -> list[int]:
    """Processes under the victim's limits that hold the signal back."""
    own = [
        int(p)
        for p in os.listdir("/proc")
        if p.isdigit() and hard_limit(int(p), "Max file size") == str(VICTIM_MB * MIB)
    ]
    return [pid for pid in own if _holds_back(pid, signal.SIGUSR1)]


def _holds_back(pid: int, number: int) -> bool:
    with suppress(OSError):  # it has ended
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
        blocked = status.partition("SigBlk:")[2].split(maxsplit=1)[:1]
        return bool(blocked) and int(blocked[0], 16) >> (number - 1) & 1 == 1
    return False


def test_a_program_does_not_find_the_one_beside_it(sandbox: Sandbox) -> None:
    said: list[ProgramVerdict] = []

    def victim() -> None:
        limits = Limits(cpu_s=5, wall_s=30, file_mb=VICTIM_MB)
        said.append(run_function_tests(sandbox, VICTIM, ("assert f() == 1",), limits))

    running = threading.Thread(target=victim)
    running.start()
    started = time.monotonic()
    while not (victims := waiting_victims()):
        assert running.is_alive(), said
        assert time.monotonic() < started + 60
    spied = run_function_tests(
        sandbox, SPY, ("assert f() == ([], []), f()",), Limits(cpu_s=5, wall_s=30, file_mb=SPY_MB)
    )
    assert running.is_alive()
    for pid in victims:
        with suppress(
            ProcessLookupError, PermissionError
        ):  # an ordinary user may not: it waits to its own limit then
            os.kill(pid, signal.SIGUSR1)
    running.join()
    assert (spied.outcome, spied.detail) == (Outcome.PASSED, "")
    assert [verdict.outcome for verdict in said] == [Outcome.PASSED]
