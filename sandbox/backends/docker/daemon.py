"""Connection to the Docker daemon, translation of its errors, and removal of abandoned containers.

A time-out or refusal of the daemon is a fault of the infrastructure, never a program's result.

The owner of a container is the Parley process that started it. When its connection closes, the
container ends, but the daemon keeps a record and a layer of it. The container's label contains the
owner's boot, pid namespace, pid and start time. This process cannot check an owner of another boot
or namespace (several machines may share a daemon). Containers of such an owner are removed only if
they ended long ago.
"""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.host.abandoned import start_time
from sandbox.host.slots import sandbox_fault

if TYPE_CHECKING:
    from docker import DockerClient


TIMEOUT_S = 60.0
"""Timeout of one answer of the daemon, in seconds."""
_SPARE_CONNECTIONS = 8


@contextmanager
def daemon_faults(doing: str) -> Iterator[None]:
    """Turn errors of the docker SDK into SandboxUnavailable.

    Args:
        doing: verb phrase for the message "docker could not <doing>: ...".
    """
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException, OSError) as error:
        raise sandbox_fault(
            f"docker could not {doing}: {_explanation(error)}{_remedy(error)}", _explanation(error)
        ) from error


def client(base_url: str | None, concurrency: int) -> "DockerClient":
    """Return a client of the daemon, shared by all threads of this process.

    Args:
        base_url: address of the daemon; None for the one in DOCKER_HOST or in the `docker`
            command's current context.
        concurrency: number of programs that run at the same time, which sets the size of the
            connection pool.

    Raises:
        SandboxUnavailable: no daemon answers.
    """
    return _client(base_url or os.environ.get("DOCKER_HOST") or None, concurrency, os.getpid())


@functools.cache
def _client(base_url: str | None, concurrency: int, _pid: int) -> "DockerClient":
    import docker

    # A session stays attached to its container for its whole life. Other containers are made and
    # removed meanwhile.
    options: dict[str, Any] = {
        "version": "auto",
        "timeout": TIMEOUT_S,
        "max_pool_size": 4 * concurrency + _SPARE_CONNECTIONS,
    }
    with daemon_faults("reach its daemon"):
        if base_url is None:
            docker_client = docker.DockerClient(**_context(), **options)
        elif base_url == os.environ.get("DOCKER_HOST"):
            docker_client = docker.DockerClient.from_env(**options)
        else:
            docker_client = docker.DockerClient(base_url=base_url, **options)
        # Otherwise each request would read proxy settings from the environment, which other threads
        # may change.
        docker_client.api.trust_env = False
        return docker_client


def daemon_version(base_url: str | None = None) -> str:
    """Return the daemon's version.

    Raises:
        SandboxUnavailable: no daemon answers.
    """
    with daemon_faults("reach its daemon"):
        return str(client(base_url, 1).version()["Version"])


def _context() -> dict[str, Any]:
    """Return the address of the current `docker context`.

    The SDK does not find Docker Desktop's socket by itself.
    """
    from docker.context import ContextAPI

    context = ContextAPI.get_context(os.environ.get("DOCKER_CONTEXT"))
    if context is None or not context.Host:
        return {}
    return {"base_url": context.Host, **({"tls": context.TLSConfig} if context.TLSConfig else {})}


def _explanation(error: Exception) -> str:
    explanation = getattr(error, "explanation", None)
    return (str(explanation) if explanation else str(error)).strip()[:300]


def _remedy(error: Exception) -> str:
    text = str(error)
    if "timed out" in text.lower():
        return (
            f"; it did not answer within {TIMEOUT_S:g} s: see its log, or run fewer programs at"
            " once"
        )
    if any(
        sign in text
        for sign in ("FileNotFoundError", "ConnectionRefused", "Connection refused", "No such file")
    ):
        return (
            "; start Docker (`systemctl start docker`, or Docker Desktop), "
            "or set DOCKER_HOST to a running daemon"
        )
    if "PermissionError" in text or "Permission denied" in text:
        return (
            "; join the group of its socket (`usermod -aG docker $USER`), "
            "or set DOCKER_HOST to a rootless daemon"
        )
    return ""


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
