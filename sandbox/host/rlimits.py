"""Resource limits of one command, set by the prefix `prlimit`.

A parent with threads cannot safely set limits between fork and exec.
"""

import math
import shutil

from schemas.errors import SandboxUnavailable
from schemas.run import Limits

MIB = 1024 * 1024


def bounds(limits: Limits) -> dict[str, tuple[int, int]]:
    """Return soft and hard limits by the names of `prlimit`'s options. Sizes are in bytes.

    CPU time is counted per process in whole seconds, rounded up. At the limit the process gets
    SIGXCPU, one second later SIGKILL.
    """
    cpu = math.ceil(limits.cpu_s)
    equal = {
        "as": limits.address_space_mb * MIB,
        "fsize": limits.file_mb * MIB,
        "nofile": limits.open_files,
        "core": 0,
        "nproc": limits.processes,
    }
    return {"cpu": (cpu, cpu + 1), **{name: (bound, bound) for name, bound in equal.items()}}


def prlimit_argv(limits: Limits, *, count_processes: bool) -> tuple[str, ...]:
    """Return the command prefix that sets the limits and then becomes the command.

    Args:
        limits: limits to set.
        count_processes: whether to limit processes. Pass False if the kernel would count other
            processes of the user, too.

    Raises:
        SandboxUnavailable: `prlimit` is missing.
    """
    options = [
        f"--{n}={soft}:{hard}"
        for n, (soft, hard) in bounds(limits).items()
        if count_processes or n != "nproc"
    ]
    return (required_tool("prlimit"), *options, "--")


def required_tool(name: str) -> str:
    """Return the absolute path of a tool of util-linux.

    Raises:
        SandboxUnavailable: the tool is not installed.
    """
    path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
    if path is None:
        raise SandboxUnavailable(
            f"the sandbox needs `{name}`, which is not in /usr/bin or /bin: install util-linux"
        )
    return path
