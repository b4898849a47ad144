"""The program `bwrap`: its path, version and error messages, and a check of Python inside it.

Commands of one session can share a folder: an empty tmpfs of limited size in its own mount
namespace, so the host's mount table and disk never contain it. It vanishes with the process that
holds the namespace, so a killed Parley process leaves nothing.
"""

import functools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.host.python_environment import interpreter
from sandbox.host.resource_limits import required_tool
from sandbox.host.slots import sandbox_fault
from sandbox.interface import Sandbox
from schemas.errors import HostShortage, SandboxUnavailable
from schemas.run import Limits

NAMESPACES_AS_ROOT = (
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-uts",
    "--unshare-cgroup-try",
)
"""Options for new namespaces of all kinds except user namespaces, which root does not need."""


def bwrap_path(option: str | None) -> str:
    """Return the path of `bwrap`, or of the program `option`.

    Raises:
        SandboxUnavailable: bubblewrap is not installed. The message states how to install it.
    """
    path = shutil.which(option or "bwrap")
    if path is None:
        raise SandboxUnavailable(
            f"{option or 'bwrap'}: bubblewrap is not installed. Run `apt-get install bubblewrap` "
            "(Fedora: `dnf install bubblewrap`); `--sandbox none` would run generated code "
            "without any isolation"
        )
    return path


@functools.cache
def bwrap_version(path: str) -> str:
    """Return the version of bwrap, such as `0.8.0`.

    Raises:
        SandboxUnavailable: bwrap does not run.
    """
    try:
        output = subprocess.run(
            (path, "--version"), capture_output=True, env={}, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxUnavailable(
            f"`{path} --version` failed: {error}. Install bubblewrap again"
        ) from error
    return output.decode(errors="replace").strip().rpartition(" ")[2]


def why_no_sandbox(returncode: int, stderr: bytes) -> SandboxUnavailable:
    """Return the error that explains why bwrap ended before it started the program.

    Args:
        returncode: exit status as in `Popen.returncode`; below zero if a signal ended bwrap.
        stderr: error output of bwrap.
    """
    if returncode < 0:
        fault = HostShortage if returncode == -signal.SIGKILL else SandboxUnavailable
        return fault(f"bubblewrap was killed by signal {-returncode}, which Parley did not send")
    message = last_line(stderr)
    if any(word in message.lower() for word in ("namespace", "not permitted", "uid map")):
        return sandbox_fault(
            f"bubblewrap may not make namespaces here ({message}): allow unprivileged user "
            "namespaces (sysctl kernel.unprivileged_userns_clone=1, "
            "user.max_user_namespaces above 0, "
            "kernel.apparmor_restrict_unprivileged_userns=0), or give the container CAP_SYS_ADMIN",
            message,
        )
    return sandbox_fault(
        f"bubblewrap could not set up a sandbox (exit {returncode}): {message}", message
    )


def last_line(text: bytes) -> str:
    """Return the last line of a program's output, at most 300 characters."""
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "no message"


def check_python(sandbox: Sandbox) -> None:
    """Run a trivial program.

    Raises:
        SandboxUnavailable: the interpreter or the harness cannot be read inside the sandbox.
    """
    with sandbox.session(Limits()) as session:
        done = session.run(
            (
                "{python}",
                "-c",
                "import sys; open(sys.argv[1]); print(6 * 7)",
                "{harness}/run_function_tests.py",
            )
        )
    if done.exit_code != 0 or done.stdout.strip() != b"42":
        raise SandboxUnavailable(
            f"{sandbox.name}: {interpreter()} does not run inside the sandbox "
            f"(exit {done.exit_code}, signal {done.signal}): "
            f"{last_line(done.stderr)}. Its files must be readable for every user"
        )


SHARED_FOLDER = "/dev/shm"
"""Path at which the tmpfs is mounted in its namespace."""


@contextmanager
def shared_folder(size_bytes: int) -> Iterator[tuple[str, ...]]:
    """Mount a new shared folder, and yield the command prefix that makes the folder visible.

    Raises:
        SandboxUnavailable: no mount namespace can be made.
    """
    as_root = os.geteuid() == 0
    owner = () if as_root else ("--user", "--map-current-user")
    options = f"nosuid,nodev,mode=0777,size={size_bytes}"
    mount = f"mount -t tmpfs -o {options} tmpfs {SHARED_FOLDER} && echo ready && exec cat"
    keeper = subprocess.Popen(
        (
            required_tool("unshare"),
            *owner,
            *(() if as_root else ("--keep-caps",)),
            "--mount",
            "/bin/sh",
            "-c",
            mount,
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    try:
        assert keeper.stdout is not None
        assert keeper.stderr is not None
        if keeper.stdout.readline() != b"ready\n":
            raise SandboxUnavailable(
                "the session's files could not be mounted privately "
                f"({keeper.stderr.read().decode(errors='replace').strip()}): "
                "this needs root or unprivileged user namespaces"
            )
        yield (
            required_tool("nsenter"),
            *(() if as_root else (f"--user=/proc/{keeper.pid}/ns/user", "--preserve-credentials")),
            f"--mount=/proc/{keeper.pid}/ns/mnt",
            "--",
        )
    finally:
        keeper.communicate()
