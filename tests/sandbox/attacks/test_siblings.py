"""Two programs at the same time: neither finds the other's files, memory, sockets or processes, or can signal it."""

import os
import threading
import time

import pytest

from sandbox.function_tests import FunctionVerdict, run_function_tests
from sandbox.interface import Sandbox
from schemas.run import Limits
from schemas.verdict import Outcome
from tests.sandbox.attacks.host import MIB, hard_limit

pytestmark = pytest.mark.slow

VICTIM_MB, SPY_MB = 29, 31
VICTIM = """\
import ctypes, os, socket, time
secret = "parley-" + "sibling" + "-secret"
for folder in (".", "/tmp", "/dev/shm"): open(f"{folder}/parley-sibling", "w").write(secret)
name = socket.socket(socket.AF_UNIX)
name.bind("\\0parley-sibling")
name.listen()
port = socket.create_server(("127.0.0.1", 47113))
ctypes.CDLL(None).shmget(0x5041524C, 4096, 0o1777)
time.sleep(1.5)
def f(): return 1 if open("parley-sibling").read() == secret else 0
"""
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


def test_a_program_does_not_find_the_one_beside_it(sandbox: Sandbox) -> None:
    said: list[FunctionVerdict] = []

    def victim() -> None:
        limits = Limits(cpu_s=5, wall_s=30, file_mb=VICTIM_MB)
        said.append(run_function_tests(sandbox, VICTIM, ("assert f() == 1",), limits))

    running = threading.Thread(target=victim)
    running.start()
    started = time.monotonic()
    while not any(hard_limit(int(p), "Max file size") == str(VICTIM_MB * MIB) for p in os.listdir("/proc") if p.isdigit()):
        assert time.monotonic() < started + 10
    spied = run_function_tests(sandbox, SPY, ("assert f() == ([], []), f()",), Limits(cpu_s=5, wall_s=30, file_mb=SPY_MB))
    assert running.is_alive()
    running.join()
    assert (spied.outcome, spied.detail) == (Outcome.PASSED, "")
    assert [verdict.outcome for verdict in said] == [Outcome.PASSED]
