"""A Docker daemon of one's own, and an image for it that comes from no image registry.

    python -m tests.sandbox.backends.daemon COMMAND...     runs COMMAND with DOCKER_HOST set to a
    daemon that ends with it

Needs root, `dockerd`, `unshare` and `setpriv` (Debian: `apt-get install docker.io`). Daemon,
containerd and containers live in a pid and a mount namespace of their own, with their own socket
and roots below one temporary folder: ending the namespace's first process ends all of them and all
their mounts. A guard does that when whoever started it ends, however that comes, and after
LONGEST_S.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LONGEST_S = 5400.0
READY_S = 60.0
ROOT = Path(__file__).resolve().parents[3]
SEARCHED = f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"
"""PATH with the folders of root's programs, which not every shell has on it."""
_PREFIX = "parley-dockerd-"
_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
# Started by a shell, since the first process of a pid namespace has to collect those that lose
# their parents. All that it writes is in memory: removing thousands of files from a disk takes
# longer than most
# tests.
_FIRST = (
    'mkdir -p /etc/docker; for place in /etc/docker /run "$0"; do mount -t tmpfs tmpfs $place; '
    'done; dockerd "$@" & wait $!'
)


def why_not() -> str | None:
    """Why no daemon can be started here; None where one can."""
    if os.geteuid() != 0:
        return "starting a Docker daemon needs root: start one yourself and set DOCKER_HOST"
    missing = [
        tool
        for tool in ("dockerd", "unshare", "setpriv")
        if shutil.which(tool, path=SEARCHED) is None
    ]
    return (
        (
            f"no {', '.join(missing)}: apt-get install docker.io, or set DOCKER_HOST to a daemon "
            "that runs"
        )
        if missing
        else None
    )


@contextmanager
def started_daemon() -> Iterator[str]:
    """A fresh daemon; yields its address.

    Raises RuntimeError with the end of its log where it does not get up.
    """
    remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    with subprocess.Popen(
        (sys.executable, "-m", "tests.sandbox.backends.daemon", "--guard", str(folder)),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as guard:
        try:
            assert guard.stdout is not None
            address = guard.stdout.readline().decode().strip()
            if not address:
                raise RuntimeError(f"dockerd did not get up: {_log_end(folder)}")
            yield address
        finally:
            guard.communicate()  # the end of its standard input ends the daemon
            shutil.rmtree(folder, ignore_errors=True)


def guard(folder: Path) -> None:
    """Start a daemon below `folder`, say its address, and end it with standard input or after
    LONGEST_S.
    """
    address = f"unix://{folder}/socket"
    group = f"parley-{folder.name}"
    options = (
        *(
            "--host",
            address,
            "--data-root",
            f"{folder}/roots/data",
            "--exec-root",
            f"{folder}/roots/exec",
            "--pidfile",
            f"{folder}/pid",
        ),
        *(
            "--bridge",
            "none",
            "--iptables=false",
            "--ip-forward=false",
            "--ip-masq=false",
            "--cgroup-parent",
            group,
        ),
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    (folder / "roots").mkdir()
    with (folder / "log").open("wb") as log:
        command = (
            "setpriv",
            "--pdeathsig",
            "KILL",
            *_NAMESPACES,
            "sh",
            "-c",
            _FIRST,
            f"{folder}/roots",
            *options,
        )
        environment = {**os.environ, "PATH": SEARCHED}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
        )
    answers = False
    try:
        answers = _answers(folder / "socket", process)
        if answers:
            print(address, flush=True)
            select.select([sys.stdin], [], [], LONGEST_S)
    except KeyboardInterrupt:
        pass  # a SIGTERM (see above) asks for just what follows
    finally:
        process.kill()
        process.wait()
        _remove_groups(group)
        if answers:  # else its log is read
            shutil.rmtree(folder, ignore_errors=True)


def _answers(socket: Path, process: "subprocess.Popen[bytes]") -> bool:
    import docker
    from docker.errors import DockerException

    deadline = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(DockerException):
            docker.DockerClient(base_url=f"unix://{socket}", version="auto", timeout=5).close()
            return True
        time.sleep(0.05)
    return False


def _remove_groups(name: str) -> None:
    """What the killed daemon made below the cgroup hierarchies; members are still on their way out
    for a moment.
    """
    deadline = time.monotonic() + 5
    for folder in sorted(
        (Path(found[0]) for found in os.walk("/sys/fs/cgroup") if name in found[0]), reverse=True
    ):
        while folder.exists() and time.monotonic() < deadline:
            try:
                folder.rmdir()
            except OSError:
                time.sleep(0.01)


def remove_abandoned() -> None:
    """Remove the folders of daemons whose starter was killed together with its guard."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            _remove_groups(f"parley-{folder.name}")
            shutil.rmtree(folder, ignore_errors=True)


def _log_end(folder: Path) -> str:
    with suppress(OSError):
        return (folder / "log").read_text(errors="replace")[-500:]
    return "no log"


def main(arguments: list[str]) -> int:
    """Be the guard, or run a command beside a daemon."""
    if arguments[:1] == ["--guard"]:
        guard(Path(arguments[1]))
        return 0
    reason = why_not()
    if reason is not None:
        print(f"no Docker daemon: {reason}", file=sys.stderr)
        return 1
    with started_daemon() as address:
        return subprocess.run(arguments, env={**os.environ, "DOCKER_HOST": address}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
