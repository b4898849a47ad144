"""The program `bwrap`: where it is, its version, and what its refusals mean."""

import functools
import shutil
import subprocess

from schemas.errors import SandboxUnavailable

NAMESPACES_AS_ROOT = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
"""All but a user namespace: root builds real mounts."""


def bwrap_path(option: str | None) -> str:
    """Path of `bwrap`, or of the program named instead.

    Raises:
        SandboxUnavailable: it is not installed; says how to.
    """
    path = shutil.which(option or "bwrap")
    if path is None:
        raise SandboxUnavailable(
            f"{option or 'bwrap'}: bubblewrap is not installed. `apt-get install bubblewrap` "
            "(Fedora: `dnf install bubblewrap`); `--sandbox none` would run generated code without any isolation"
        )
    return path


@functools.cache
def bwrap_version(path: str) -> str:
    """For example `0.8.0`. Raises SandboxUnavailable."""
    try:
        said = subprocess.run((path, "--version"), capture_output=True, env={}, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxUnavailable(f"{path} --version: {error}; install bubblewrap again") from error
    return said.decode(errors="replace").strip().rpartition(" ")[2]


def why_no_sandbox(returncode: int, stderr: bytes) -> str:
    """What to do about a bwrap that ended before the program was reached.

    Args:
        returncode: as `Popen.returncode`; below zero where a signal ended it.
    """
    if returncode < 0:
        return f"bubblewrap was ended from outside by signal {-returncode}"
    said = last_line(stderr)
    if any(word in said.lower() for word in ("namespace", "not permitted", "uid map")):
        return (
            f"bubblewrap may not make namespaces here ({said}): allow unprivileged user namespaces (sysctl "
            "kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, "
            "kernel.apparmor_restrict_unprivileged_userns=0), or give the container CAP_SYS_ADMIN"
        )
    return f"bubblewrap could not set up a sandbox (exit {returncode}): {said}"


def last_line(text: bytes) -> str:
    """The last line of what a program wrote, bounded."""
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "no message"
