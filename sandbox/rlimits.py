"""Resource limits of one command, as a `prlimit` prefix (setting them between fork and exec is unsafe in a threaded parent)."""

import math
import shutil

from schemas.errors import SandboxUnavailable
from schemas.run import Limits

MIB = 1024 * 1024


def prlimit_argv(limits: Limits, *, count_processes: bool) -> tuple[str, ...]:
    """Command prefix that sets the limits and then becomes the command.

    CPU time is counted per process in whole seconds, rounded up: at the limit comes SIGXCPU, one second later SIGKILL.

    Args:
        count_processes: False where the user's other processes would be counted too.

    Raises:
        SandboxUnavailable: `prlimit` is missing.
    """
    cpu = math.ceil(limits.cpu_s)
    bounds = [
        f"--as={limits.memory_mb * MIB}",
        f"--cpu={cpu}:{cpu + 1}",
        f"--fsize={limits.file_mb * MIB}",
        f"--nofile={limits.open_files}",
        "--core=0",
    ]
    if count_processes:
        bounds.append(f"--nproc={limits.processes}")
    return (required_tool("prlimit"), *bounds, "--")


def required_tool(name: str) -> str:
    """Absolute path of a tool of util-linux.

    Raises:
        SandboxUnavailable: it is not installed.
    """
    path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
    if path is None:
        raise SandboxUnavailable(f"the sandbox needs `{name}`, which is not in /usr/bin or /bin: install util-linux")
    return path
