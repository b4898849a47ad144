"""The Docker backend on a real daemon, with an image made by debootstrap (`daemon_image.py` says
where it is kept).
"""

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from docker.errors import NotFound

from sandbox.backends.docker import container as docker_container
from sandbox.backends.docker.backend import DockerSandbox
from sandbox.backends.docker.daemon import OWNER, client, owner_label, reap
from sandbox.conformance import CASES, Case
from sandbox.judging.runners.run import run_function_tests
from schemas.errors import SandboxUnavailable
from schemas.run import Limits
from schemas.verdict import Outcome

pytestmark = pytest.mark.docker

ROOT = Path(__file__).resolve().parents[3]
LIMITS = Limits(cpu_s=2, wall_s=20, memory_mb=256, processes=16, tmp_mb=16)
SHORT = LIMITS.model_copy(update={"wall_s": 2.0})
TEST = ("assert f() == 4711",)


@pytest.fixture
def api(docker_daemon: str | None) -> Any:
    return client(docker_daemon, 2).api


def containers(api: Any, owner: str) -> list[dict[str, Any]]:
    """Containers whose owner's label holds that text, with all that the daemon knows of them."""
    listed = api.containers(all=True, filters={"label": OWNER})
    found: list[dict[str, Any]] = []
    for container in listed:
        with suppress(NotFound):  # removed since
            found += (
                [api.inspect_container(container["Id"])]
                if owner in container["Labels"][OWNER]
                else []
            )
    return found


def wait_until(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def python(session: Any, program: str, **options: Any) -> Any:
    return session.run(("{python}", "-S", "-c", program), **options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_docker_conforms(docker: DockerSandbox, case: Case):
    """Every case holds; there is no list of exceptions."""
    assert case.violation(docker) == ""


def test_the_container_is_as_restricted_as_asked(docker: DockerSandbox, api: Any):
    with docker.session(LIMITS) as session:
        python(session, "pass")
        (made,) = [
            c
            for c in containers(api, owner_label())
            if c["HostConfig"]["Memory"] == (256 + 32) << 20
        ]
    host, base = made["HostConfig"], api.inspect_image(docker._image)
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"], host["CapAdd"]) == (
        "none",
        True,
        ["ALL"],
        None,
    )
    assert (host["PidsLimit"], host["MemorySwap"], host["NanoCpus"]) == (
        17,
        host["Memory"],
        1_000_000_000,
    )
    assert not host["Privileged"]
    assert not host["Binds"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert any(option.startswith('seccomp={"defaultAction"') for option in host["SecurityOpt"])
    assert {
        path: options for path, options in host["Tmpfs"].items() if "size=16m" in options
    }.keys() == {
        "/box",
        "/tmp",
        "/dev/shm",
    }
    assert made["Config"]["User"] == "20000:20000"
    assert made["HostConfig"]["LogConfig"]["Type"] == "none"
    assert api.inspect_image(made["Image"])["RootFS"]["Layers"][:-1] == base["RootFS"]["Layers"]


def attempt(imports: str, action: str) -> str:
    return f"import {imports}\ntry: {action}; print('it worked')\nexcept OSError: pass"


REACHES = {
    "end the launcher": "import os\nfor n in (9, 15, 2, 17, 24): os.kill(1, n)",
    "end all": "import os\nos.kill(-1, 9)",
    "read its memory": attempt("os", "open('/proc/1/mem', 'rb')"),
    "limit its CPU time": attempt("resource as r", "r.prlimit(1, r.RLIMIT_CPU, (1, 1))"),
    "limit its files": attempt("resource as r", "r.prlimit(1, r.RLIMIT_NOFILE, (3, 3))"),
    "list its descriptors": attempt("os", "os.listdir('/proc/1/fd')"),
    **{
        f"write to its descriptor {n}": attempt(
            "os", f"open('/proc/1/fd/{n}', 'wb').write(b'x' * 99)"
        )
        for n in (1, 5, 6, 7)
    },
    "take its descriptor": (
        "import os, ctypes\nif ctypes.CDLL(None).syscall(438, os.pidfd_open(1), 1, 0) >= 0: "
        "print('worked')"
    ),
}


@pytest.mark.parametrize("program", REACHES.values(), ids=REACHES.keys())
def test_a_command_cannot_reach_the_launcher(docker: DockerSandbox, program: str):
    with docker.session(LIMITS) as session:
        reached = python(session, program)
        assert reached.stdout.strip() == b""
        assert python(session, "print(1)").stdout == b"1\n"  # the same launcher, unharmed


FRAME = r"""
import json, os
head = json.dumps({"returncode": 0, "overran": False, "cpu_s": 0.0, "wall_s": 0.0, "memory_kills": 0, "sizes": [6, 0]}).encode()
body = len(head).to_bytes(4, "big") + head + b"forged"
message = len(body).to_bytes(8, "big") + body
for n in range(64):
    try: os.write(n, b"\x01\0\0\0" + len(message).to_bytes(4, "big") + message)
    except OSError: pass
"""


def test_frames_cannot_be_forged(docker: DockerSandbox):
    """What a command writes, wherever it may write, comes back as its output and as nothing
    else.
    """
    with docker.session(LIMITS) as session:
        done = python(session, FRAME + "os._exit(7)")
    assert (done.exit_code, done.stdout.count(b"forged")) == (7, 1)
    found = run_function_tests(docker, FRAME + "\nos._exit(0)", TEST, LIMITS)
    assert found.outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("def f(): return 4711", Outcome.PASSED),
        ("def f(): return 1", Outcome.FAILED),
        ("import os; os._exit(0)", Outcome.FAILED),
        ("import os; os.kill(os.getppid(), 9)", Outcome.FAILED),
        ("import os; os.kill(-1, 9)", Outcome.FAILED),
        ("import time\ndef f(): time.sleep(60)", Outcome.TIMEOUT),
        ("def f():\n    while True: pass", Outcome.TIMEOUT),
    ],
)
def test_function_tests_are_judged(docker: DockerSandbox, code: str, outcome: Outcome):
    limits = LIMITS.model_copy(update={"cpu_s": 1.0, "wall_s": 5.0 if "sleep" in code else 20.0})
    assert run_function_tests(docker, code, TEST, limits).outcome is outcome


HUNGRY = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        block = bytearray(100 << 20)
        for i in range(0, len(block), 4096): block[i] = 1
        time.sleep(0.5); os._exit(0)
while True: os.wait()
"""


def test_memory_of_all_processes_together_is_bounded(docker: DockerSandbox):
    with docker.session(LIMITS) as session:
        done = python(session, HUNGRY)
        assert done.out_of_memory
        assert not python(session, "print(1)").out_of_memory
    found = run_function_tests(docker, HUNGRY, TEST, LIMITS)
    assert (found.outcome, found.detail) == (Outcome.FAILED, "used more than 256 MB of memory")


def test_a_tree_that_keeps_the_cpu_busy_is_ended_in_time(docker: DockerSandbox):
    busy = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
    with docker.session(LIMITS) as session:
        done = python(session, busy, limits=SHORT)
        assert (done.timed_out, done.wall_s < 8) == (True, True)
        assert python(session, "print(1)").stdout == b"1\n"


LITTER = {
    "deep tree": "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')",
    "closed folders": (
        "import os\nos.makedirs('/tmp/a/b/c'); os.chmod('/tmp/a/b', 0); os.chmod('/tmp/a', 0); "
        "os.mkfifo('x')"
    ),
    "shared memory": "import ctypes\nassert ctypes.CDLL(None).shmget(4711, 4096, 0o1600) >= 0",
}


@pytest.mark.parametrize("program", LITTER.values(), ids=LITTER.keys())
def test_what_a_command_leaves_is_cleared_away(docker: DockerSandbox, program: str):
    seeing = (
        "import os; print(*map(os.listdir, ('.', '/tmp', '/dev/shm')), "
        "len(open('/proc/sysvipc/shm').readlines()))"
    )
    with docker.session(LIMITS) as session:
        assert python(session, program).exit_code == 0
        assert python(session, seeing).stdout == b"[] [] [] 1\n"


def test_sessions_share_no_container_and_leave_none(docker: DockerSandbox, api: Any):
    def name(_: int) -> str:
        with docker.session(LIMITS) as session:
            assert python(session, "open('/tmp/x', 'x')").exit_code == 0
            assert session._held is not None
            return session._held[1].id

    with ThreadPoolExecutor(4) as threads:
        used = set(threads.map(name, range(6)))
    assert len(used) == 6
    wait_until(lambda: not used & {c["Id"] for c in containers(api, owner_label())})


def test_a_container_that_is_ended_from_outside_is_no_verdict(docker: DockerSandbox, api: Any):
    with docker.session(LIMITS, keep_files=True) as session:
        python(session, "open('kept', 'w')")
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(python, session, "import time; time.sleep(15)")
            assert session._held is not None
            held = session._held[1].id
            wait_until(lambda: len(api.top(held)["Processes"]) > 1)
            api.kill(held)
            with pytest.raises(SandboxUnavailable, match="was ended, neither by Parley nor"):
                running.result()
        with pytest.raises(SandboxUnavailable, match="its files are lost"):
            python(session, "pass")


def test_a_launcher_that_does_not_answer_costs_the_command_its_time_limit(
    docker: DockerSandbox, api: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(docker_container, "GRACE_S", 0.5)
    with docker.session(LIMITS) as session, ThreadPoolExecutor(1) as threads:
        python(session, "pass")
        assert session._held is not None
        held = session._held[1].id
        until_paused = LIMITS.model_copy(update={"wall_s": 8.0})
        running = threads.submit(
            python, session, "import time; time.sleep(60)", limits=until_paused
        )
        wait_until(lambda: len(api.top(held)["Processes"]) > 1)
        api.pause(held)
        assert running.result().timed_out
        assert python(session, "print(1)").stdout == b"1\n"  # in another container


OWNER_PROCESS = """
import sys, time
from sandbox import registry
from schemas.run import Limits
sandbox = registry.load("docker", image=sys.argv[1], base_url=sys.argv[2] or None, slots=8)
for _ in range(2):
    with sandbox.session(Limits()) as session:
        session.run(("{python}", "-S", "-c", "pass"))
if sys.argv[3] == "ends":
    sys.exit()
with sandbox.session(Limits(wall_s=60)) as session:
    print("ready", flush=True)
    session.run(("{python}", "-S", "-c", "import time; time.sleep(60)"))
"""


def owner(docker: DockerSandbox, what: str) -> "subprocess.Popen[str]":
    arguments = (str(docker._image), docker._base_url or "", what)
    return subprocess.Popen(
        (sys.executable, "-c", OWNER_PROCESS, *arguments),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_process_that_ends_takes_its_containers_with_it(docker: DockerSandbox, api: Any):
    process = owner(docker, "ends")
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert containers(api, f"/{process.pid}/") == []


def test_what_a_killed_process_leaves_ends_by_itself_and_is_reaped(docker: DockerSandbox, api: Any):
    killed, living = owner(docker, "stays"), owner(docker, "stays")
    try:
        for process in (killed, living):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        wait_until(
            lambda: not any(c["State"]["Running"] for c in containers(api, f"/{killed.pid}/"))
        )
        reap(api)
        assert containers(api, f"/{killed.pid}/") == []
        assert [c for c in containers(api, f"/{living.pid}/") if c["State"]["Running"]]
    finally:
        for process in (killed, living):
            process.kill()
            process.communicate()
        wait_until(
            lambda: not any(c["State"]["Running"] for c in containers(api, f"/{living.pid}/"))
        )
        reap(api)


def test_an_image_that_is_not_there_or_cannot_run_is_no_verdict(
    docker: DockerSandbox, docker_daemon: str | None, api: Any
):
    missing = f"sha256:{'0' * 64}"
    with pytest.raises(SandboxUnavailable, match=rf"no image {missing}\. Get it: docker build"):
        DockerSandbox(image=missing, base_url=docker_daemon).check()
    with pytest.raises(
        SandboxUnavailable, match=r"no image python@sha256:.*docker pull python@sha256:"
    ):
        DockerSandbox(image=f"python@{missing}", base_url=docker_daemon).check()
    with pytest.raises(SandboxUnavailable, match=r"could not .* a container: .*no-such-runtime"):
        DockerSandbox(
            image=docker._image, base_url=docker_daemon, runtime="no-such-runtime"
        ).check()


def test_the_fingerprint_is_the_image(docker: DockerSandbox):
    assert docker.fingerprint() == f"docker {docker._image}"
    assert (
        DockerSandbox(image=docker._image, runtime="runsc")
        .fingerprint()
        .endswith("; runtime runsc")
    )
    assert os.environ.get("PARLEY_DOCKER_IMAGE") is None


def test_a_program_runs_in_the_image_that_it_names(docker: DockerSandbox, api: Any):
    """Its own image has a file that the usual one lacks.

    The image stays: containers of it are kept ready until the tests end.
    """
    mark = "import os; print(os.path.exists('/of-another-image'))"
    files = io.BytesIO()
    with tarfile.open(fileobj=files, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("of-another-image"))
    made = api.create_container(docker._image, command=["true"])["Id"]
    try:
        api.put_archive(made, "/", files.getvalue())
        other = api.commit(made)["Id"]
    finally:
        api.remove_container(made)
    for sandbox, has_mark in ((docker, False), (docker.with_image(other), True)):
        assert (sandbox.fingerprint() != docker.fingerprint()) is has_mark
        with sandbox.session(LIMITS) as session:
            assert python(session, mark).stdout.strip() == str(has_mark).encode()
