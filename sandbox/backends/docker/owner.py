"""Owners of containers, and removal of containers whose owner has died.

The owner is the Parley process that started a container. When its connection closes, the container
ends, but the daemon keeps a record and a layer of it. The container's label contains the owner's
boot, pid namespace, pid and start time. This process cannot check an owner of another boot or
namespace (several machines may share a daemon). Containers of such an owner are removed only if
they ended long ago.
"""

import functools
import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sandbox.backends.docker.daemon import daemon_faults
from sandbox.host.abandoned import start_time

OWNER = "parley.owner"
_ENDED = ("exited", "dead", "created")
_LONG = timedelta(minutes=10)


def owner_label() -> str:
    """Return the label that identifies this process."""
    pid = os.getpid()
    return f"{_boot_and_namespace()}/{pid}/{_start_time(pid)}"


def reap(api: Any) -> int:
    """Remove containers that no process will use again, and return their number.

    Args:
        api: the SDK's `APIClient`.

    Raises:
        SandboxUnavailable: the daemon does not list its containers.
    """
    with daemon_faults("list its containers"):
        containers = api.containers(all=True, filters={"label": OWNER})
    removed = 0
    for container in containers:
        if _is_abandoned(container):
            removed += remove(api, container["Id"])
    return removed


def remove(api: Any, container: str) -> bool:
    """Remove a container, running or not, and return True.

    Return False if the daemon does not remove it. The next call of `reap` tries again.
    """
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        api.remove_container(container, force=True, v=True)
    except (DockerException, RequestException, OSError):
        return False
    return True


def _is_abandoned(container: dict[str, Any]) -> bool:
    label = (container.get("Labels") or {}).get(OWNER, "").split("/")
    if len(label) != 4:
        return False
    boot, namespace, pid, start = label
    if f"{boot}/{namespace}" == _boot_and_namespace() and pid.isdigit():
        return _start_time(int(pid)) != start
    created_at = datetime.fromtimestamp(container["Created"], tz=UTC)
    return container["State"] in _ENDED and datetime.now(UTC) - created_at > _LONG


@functools.cache
def _boot_and_namespace() -> str:
    """Return an id of this boot and pid namespace."""
    with suppress(OSError):  # The system is not Linux, or the file may not be read.
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    import platform

    import psutil

    return f"{platform.node()}-{psutil.boot_time():.0f}/0"


def _start_time(pid: int) -> str:
    """Return a process's start time as this system reports it; empty without such a process."""
    if Path("/proc/self/stat").exists():
        return start_time(pid)
    import psutil

    try:
        return f"{psutil.Process(pid).create_time():.2f}"
    except psutil.Error:
        return ""
