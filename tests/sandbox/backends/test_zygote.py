"""What is particular to warm zygotes: runs of one share nothing, it learns nothing of them, and
they see what they need.
"""

import importlib.metadata
import json
import os
import secrets
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.backends.zygote.backend import ZygoteSandbox
from sandbox.conformance import CASES, Case
from sandbox.host.python_environment import package_folders
from sandbox.host.resource_limits import low_priority
from sandbox.judging.runners.run import run_function_tests
from schemas.run import Limits
from schemas.verdict import Outcome
from tests.sandbox.backends.zygotes import LIMITS, ROOT, idle, pythons_of, verdict
from tests.sandbox.backends.zygotes import zygote as zygote


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_zygote_conforms(zygote: ZygoteSandbox, case: Case):
    assert case.violation(zygote) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("def f(): return 1", Outcome.PASSED),
        ("def f(): return 2", Outcome.FAILED),
        ("while True: pass", Outcome.TIMEOUT),
        ("import atexit, os\natexit.register(os._exit, 3)\ndef f(): return 1", Outcome.FAILED),
        (
            (
                "import threading, time\nthreading.Thread(target=time.sleep, "
                "args=(0.1,)).start()\ndef f(): return 1"
            ),
            Outcome.PASSED,
        ),
        ("import os\nos.kill(os.getpid(), 9)", Outcome.FAILED),
    ],
)
def test_a_fork_ends_as_an_interpreter_ends(zygote: ZygoteSandbox, code: str, outcome: Outcome):
    limits = Limits(cpu_s=1, wall_s=20)
    assert verdict(zygote, code, limits=limits).outcome is outcome


def test_recursion_goes_as_deep_as_in_a_fresh_interpreter(
    zygote: ZygoteSandbox, bubblewrap: BubblewrapSandbox
):
    code = "def f(n=1):\n    try: return f(n + 1)\n    except RecursionError: return n"
    details = {
        run_function_tests(sandbox, code, ("raise Exception(f())",), LIMITS).detail
        for sandbox in (zygote, bubblewrap)
    }
    assert len(details) == 1
    depth = int(details.pop().rpartition("Exception: ")[2].split()[0])
    script = (sys.executable, "-c", f"{code}\nprint(f())")
    assert depth == pytest.approx(int(subprocess.check_output(script)), abs=5)


def test_a_program_of_low_priority_gives_way_in_every_sandbox(
    zygote: ZygoteSandbox, bubblewrap: BubblewrapSandbox
):
    code, tests = "import os\ndef f(): return os.nice(0)", ("assert f() == 19",)
    for sandbox in (zygote, ZygoteSandbox(), bubblewrap):
        with low_priority():
            assert run_function_tests(sandbox, code, tests, LIMITS).outcome is Outcome.PASSED
        assert run_function_tests(sandbox, code, tests, LIMITS).outcome is Outcome.FAILED


def test_small_libraries_are_loaded_without_a_process_of_their_own(zygote: ZygoteSandbox):
    code = "import os, sys\ndef f(name): return name in sys.modules, os.getppid() > 0"
    small = ZygoteSandbox(preload=("colorsys",))
    for sandbox, name, has_parent in ((small, "colorsys", True), (zygote, "numpy", False)):
        tests = (f"assert f({name!r}) == (True, {has_parent})",)
        assert run_function_tests(sandbox, code, tests, LIMITS).detail == ""


def test_runs_share_one_zygote_and_nothing_else(zygote: ZygoteSandbox):
    spoiling = """
import builtins, gc, math, os, sys, numpy
math.pi, builtins.left, sys.modules["left"], os.environ["LEFT"] = 3, 1, sys, "1"
for place in (".", "/tmp", "/dev/shm"): open(f"{place}/left", "w")
numpy.random.seed(1)
os.fork() or os._exit(0)
def f(): return 1
"""
    assert verdict(zygote, spoiling).outcome is Outcome.PASSED
    served = idle()
    looking = """
import builtins, math, os, sys
places = [place for place in (".", "/tmp", "/dev/shm") if os.path.exists(f"{place}/left")]
seen = places, math.pi == 3, hasattr(builtins, "left"), "left" in sys.modules, "LEFT" in os.environ
"""
    found = verdict(zygote, looking, "assert seen == ([], False, False, False, False), seen")
    assert (found.outcome, found.detail) == (Outcome.PASSED, "")
    assert idle() is served


def test_runs_draw_different_random_numbers(zygote: ZygoteSandbox):
    code = (
        "import random, numpy\ndef f(): return (random.random(), float(numpy.random.random()), "
        "numpy.__name__)"
    )
    said = [verdict(zygote, code, "raise Exception(f())").detail for _ in range(2)]
    assert said[0] != said[1]
    assert all(
        a != b
        for a, b in zip(*(text.rpartition("(")[2].split(", ")[:2] for text in said), strict=True)
    )


def test_a_programs_own_forks_draw_other_random_numbers(zygote: ZygoteSandbox):
    """What libraries have done in a fork is done in those of programs, though not in ours."""
    code = """
import os, random
reading, writing = os.pipe()
def f():
    if os.fork() == 0:
        os.write(writing, str(random.random()).encode())
        os._exit(0)
    os.wait()
    return random.random() == float(os.read(reading, 99))
"""
    found = verdict(zygote, code, "assert f() is False")
    assert (found.outcome, found.detail) == (Outcome.PASSED, "")


def test_what_is_loaded_does_not_count_as_the_programs_memory(zygote: ZygoteSandbox):
    """150 MB fit into 256 with numpy loaded, as they would without; 300 MB do not."""
    limits = LIMITS.model_copy(update={"memory_mb": 256})
    code = "def f(): return len(bytearray({} << 20)) and 1"
    assert verdict(zygote, code.format(150), limits=limits).outcome is Outcome.PASSED
    assert verdict(zygote, code.format(300), limits=limits).outcome is Outcome.FAILED


def test_the_zygote_learns_nothing_of_a_run(zygote: ZygoteSandbox):
    """What every later child would find in its memory: nothing of code, tests, arguments, input or
    files.
    """
    words = [
        f"{name}-{secrets.token_hex(16)}" for name in ("code", "tests", "argument", "input", "file")
    ]
    assert (
        verdict(
            zygote, f"# {words[0]}\ndef f(): return 1", f"assert f() == 1, {words[1]!r}"
        ).outcome
        is Outcome.PASSED
    )
    with zygote.session(LIMITS) as session:
        argv = ("{python}", "-c", "print(open('x').read(), input())", words[2])
        done = session.run(argv, stdin=words[3].encode(), files={"x": words[4].encode()})
        assert done.stdout.decode().split() == [words[4], words[3]]
    pythons = pythons_of(idle())
    assert len(pythons) == 2
    for python in pythons:
        try:
            memory = _memory(python.pid)
        except PermissionError as error:
            pytest.skip(f"this user may not look into its own processes: {error}")
        assert b"drop_capabilities_for_good" in memory
        assert [word for word in words if word.encode() in memory] == []


def _memory(pid: int) -> bytes:
    pieces: list[bytes] = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            if line.split()[1].startswith("rw"):
                memory.seek(first)
                pieces.append(memory.read(last - first))
    return b"".join(pieces)


def test_a_kept_directory_is_not_there_for_the_next_session(zygote: ZygoteSandbox):
    assert verdict(zygote, "def f(): return 1").outcome is Outcome.PASSED
    before = idle()
    with zygote.session(LIMITS, keep_files=True) as session:
        session.run(("{python}", "-c", "open('kept', 'w')"))
    found = verdict(
        zygote, "import os\ndef f(): return os.listdir()", "assert f() == ['program.py'], f()"
    )
    assert (found.outcome, found.detail) == (Outcome.PASSED, "")
    assert idle() is before


@pytest.mark.slow
def test_a_process_beside_the_program_is_left_over(zygote: ZygoteSandbox):
    """Its parent is then not the run's first process but the zygote's; it ends with the run, and
    the zygote goes on.
    """
    code = """
import ctypes, os
libc, stack, CLONE_PARENT, SIGCHLD = ctypes.CDLL(None), ctypes.create_string_buffer(1 << 16), 0x8000, 17
assert libc.clone(libc.pause, ctypes.c_void_p(ctypes.addressof(stack) + (1 << 15) & -16), CLONE_PARENT | SIGCHLD, None) > 1
def f(): return os.getppid()
"""
    assert verdict(zygote, code, "assert f() == 0").detail == "left a process running after its end"
    served = idle()
    assert (
        verdict(zygote, code.replace("libc.pause", "libc.getpid"), "assert f() == 0").outcome
        is Outcome.PASSED
    )
    assert idle() is served


def test_the_fingerprint_names_what_is_loaded():
    with_numpy, bare = (
        ZygoteSandbox(preload=("numpy", "json")).fingerprint(),
        ZygoteSandbox().fingerprint(),
    )
    assert f"numpy {importlib.metadata.version('numpy')}, json (no version) loaded" in with_numpy
    assert with_numpy != bare


BELOW_TMP = """
import json, sys
from pathlib import Path
from sandbox.judging.runners.run import run_function_tests
from sandbox.registry import load
from schemas.run import Limits
probing = '''
import os, only_below_tmp
parts = only_below_tmp.__file__.split("/")
places = [*("/".join([*parts[:n], "x"]) for n in (3, 4, 5)), "/tmp/x"]
seen = only_below_tmp.word, os.path.dirname(os.path.dirname(only_below_tmp.__file__)), sorted(os.listdir("/tmp")), []
for place in places:
    try: os.mkdir(place)
    except OSError as error: seen[3].append(os.strerror(error.errno))
try: os.rename(f"/tmp/{seen[2][0]}", "/tmp/y")
except OSError: seen[3].append("held")
def f(): return seen
'''
sandbox = load("zygote", slots=1, slot_directory=Path(sys.argv[1]))
said = run_function_tests(sandbox, probing, ("raise Exception(f())",), Limits(cpu_s=5)).detail
with sandbox.session(Limits(), keep_files=True) as session:
    started = session.run(("{python}", "-c", "import sys; print(sys.prefix)")).stdout.decode()
print(json.dumps([said, started]))
"""


def test_runs_see_a_python_below_tmp_and_cannot_change_it(zygote: ZygoteSandbox, tmp_path: Path):
    """Each run has an empty /tmp of its own, and what Python needs of the host's is shown in it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        environment = Path(folder) / "deeper" / "venv"
        venv.create(environment, symlinks=True)
        (packages,) = environment.glob("lib/*/site-packages")
        (packages / "only_below_tmp.py").write_text("word = 'shown'\n")
        done = subprocess.run(
            [environment / "bin" / "python", "-c", BELOW_TMP, tmp_path],
            env={"PYTHONPATH": f"{ROOT}:{package_folders()[0]}", "PATH": os.environ["PATH"]},
            capture_output=True,
            check=True,
        )
        said, started = json.loads(done.stdout)
        outside = os.listdir(folder)
    denied = ["Read-only file system"] * 3
    needed = {Path(place).resolve() for place in (folder, ROOT, package_folders()[0])}
    shown = sorted({place.parts[2] for place in needed if place.is_relative_to("/tmp")})
    seen = ("shown", str(packages.parent), shown, [*denied, "held"])
    assert said.endswith(f"Exception: {seen}"), said
    assert (started, outside) == (f"{environment}\n", ["deeper"])


def test_a_run_holds_no_descriptor_but_its_own(tmp_path: Path):
    """However many its driver has open, whose numbers the zygote's socket shares."""
    sandbox = ZygoteSandbox(slots=1, slot_directory=tmp_path)
    probing = """
import os
def is_open(n):
    try: return os.fstat(n) is not None
    except OSError: return False
seen = [n for n in range(3, 128) if is_open(n)]
"""
    listing = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(100)]
    try:
        in_fork = verdict(
            sandbox, probing, "assert len(seen) == 2, seen"
        )  # of the program's channel to its supervisor
        with sandbox.session(LIMITS) as session:
            executed = session.run(("{python}", "-c", listing))
    finally:
        for descriptor in held:
            os.close(descriptor)
    assert (in_fork.outcome, in_fork.detail) == (Outcome.PASSED, "")
    assert executed.stdout == b"[0, 1, 2, 3, 4]\n", (
        executed
    )  # the report, and the folder that is being listed


TRAFFIC = """
import socket
server = socket.socket()
server.bind(("127.0.0.1", 47911))
server.listen()
client = socket.create_connection(("127.0.0.1", 47911))
accepted, _ = server.accept()
accepted.close()
client.recv(1)
client.close()
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as alone: alone.sendto(b"x", ("::1", 47911))
def f(): return 1
"""
COUNTERS = """
import os
def f():
    names = [os.path.join(folder, name) for folder, _, names in os.walk("/proc/net/") for name in sorted(names)]
    read = {name: open(name, "rb").read() for name in names if os.access(name, os.R_OK) and not name.endswith(HOSTS)}
    return {name: text.count(b"\\n") if name.endswith(OBJECTS) else text for name, text in read.items()}
HOSTS, OBJECTS = ("/softnet_stat", "/rt_cache", "/sockstat", "/protocols"), ("/unix", "/netlink")
"""
"""Some tell of the whole host, and are left out; some name the kernel's objects, whose numbers the
whole host shares.
"""


def test_a_closed_port_is_free_for_the_next_run(zygote: ZygoteSandbox):
    for _ in range(2):
        found = verdict(zygote, TRAFFIC)
        assert (found.outcome, found.detail) == (Outcome.PASSED, "")


def test_a_run_cannot_tell_what_was_sent_before_it(zygote: ZygoteSandbox):
    """Two runs of one zygote read equal bytes below /proc/net, and so do two commands, whatever was
    sent in between.
    """
    tests = (
        "import hashlib\nraise Exception(len(f()), hashlib.sha256(repr(f()).encode()).hexdigest())"
    )

    def seen() -> tuple[str, bytes]:
        with zygote.session(LIMITS) as session:
            done = session.run(("{python}", "-c", f"{COUNTERS}print(f())"))
        return verdict(zygote, COUNTERS, tests).detail, done.stdout

    before, served = seen(), idle()
    assert b"IpExt" in before[1]
    assert verdict(zygote, TRAFFIC).outcome is Outcome.PASSED
    assert seen() == before
    assert idle() is served
