"""Tells by its label whose a container is, and removes containers whose owner has died.

A container ends by itself when its owner's connection does. A record and a layer of it stay on the daemon. The label names the
owner's boot, pid namespace, pid and start time. An owner of another boot or namespace cannot be seen from here (several machines
may share a daemon), so only its long ended containers are removed.
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
    """Names this process."""
    pid = os.getpid()
    return f"{_here()}/{pid}/{_started(pid)}"


def reap(api: Any) -> int:
    """Remove containers that nobody will use again; returns how many.

    Args:
        api: the SDK's `APIClient`.

    Raises:
        SandboxUnavailable: the daemon does not list its containers.
    """
    with daemon_faults("list its containers"):
        found = api.containers(all=True, filters={"label": OWNER})
    removed = 0
    for container in found:
        if _is_abandoned(container):
            removed += remove(api, container["Id"])
    return removed


def remove(api: Any, container: str) -> bool:
    """Remove a container, running or not. False where the daemon did not; the next reaping will."""
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
    if f"{boot}/{namespace}" == _here() and pid.isdigit():
        return _started(int(pid)) != start
    made = datetime.fromtimestamp(container["Created"], tz=UTC)
    return container["State"] in _ENDED and datetime.now(UTC) - made > _LONG


@functools.cache
def _here() -> str:
    """This boot and pid namespace."""
    with suppress(OSError):  # not Linux, or no right to look
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    import platform

    import psutil

    return f"{platform.node()}-{psutil.boot_time():.0f}/0"


def _started(pid: int) -> str:
    """When a process started, as this system tells it; empty where there is none."""
    if Path("/proc/self/stat").exists():
        return start_time(pid)
    import psutil

    try:
        return f"{psutil.Process(pid).create_time():.2f}"
    except psutil.Error:
        return ""
