"""The Docker daemon that is used, and its faults. A time-out or refusal of the daemon is infra, never a program's result."""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sandbox.host.shortage import sandbox_fault

if TYPE_CHECKING:
    from docker import DockerClient

TIMEOUT_S = 60.0
"""Limit of one answer of the daemon."""
_SPARE_CONNECTIONS = 8


@contextmanager
def daemon_faults(doing: str) -> Iterator[None]:
    """Turn errors of the docker SDK into SandboxUnavailable.

    Args:
        doing: a verb for the message "docker could not <doing>: ...".
    """
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException, OSError) as error:
        raise sandbox_fault(
            f"docker could not {doing}: {_said(error)}{_remedy(error)}", _said(error)
        ) from error


def client(base_url: str | None, concurrency: int) -> "DockerClient":
    """A client of the daemon, shared by all threads of this process.

    Args:
        base_url: None for the one that DOCKER_HOST or the `docker` command's own context names.
        concurrency: programs at once; the connection pool is sized to it.

    Raises:
        SandboxUnavailable: no daemon answers.
    """
    return _client(base_url or os.environ.get("DOCKER_HOST") or None, concurrency, os.getpid())


@functools.cache
def _client(base_url: str | None, concurrency: int, _pid: int) -> "DockerClient":
    import docker

    # A session attaches to its container for its whole life; others are made and removed meanwhile.
    options: dict[str, Any] = {
        "version": "auto",
        "timeout": TIMEOUT_S,
        "max_pool_size": 4 * concurrency + _SPARE_CONNECTIONS,
    }
    with daemon_faults("reach its daemon"):
        if base_url is None:
            found = docker.DockerClient(**_context(), **options)
        elif base_url == os.environ.get("DOCKER_HOST"):
            found = docker.DockerClient.from_env(**options)
        else:
            found = docker.DockerClient(base_url=base_url, **options)
        found.api.trust_env = False  # each request would look for proxies in the environment, which other threads may change
        return found


def daemon_version(base_url: str | None = None) -> str:
    """The daemon's version, where one answers. Raises SandboxUnavailable."""
    with daemon_faults("reach its daemon"):
        return str(client(base_url, 1).version()["Version"])


def _context() -> dict[str, Any]:
    """Address of the current `docker context`: the SDK by itself does not look at Docker Desktop's socket."""
    from docker.context import ContextAPI

    context = ContextAPI.get_context(os.environ.get("DOCKER_CONTEXT"))
    if context is None or not context.Host:
        return {}
    return {"base_url": context.Host, **({"tls": context.TLSConfig} if context.TLSConfig else {})}


def _said(error: Exception) -> str:
    explanation = getattr(error, "explanation", None)
    return (str(explanation) if explanation else str(error)).strip()[:300]


def _remedy(error: Exception) -> str:
    text = str(error)
    if "timed out" in text.lower():
        return f"; it did not answer within {TIMEOUT_S:g} s: see its log, or run fewer programs at once"
    if any(
        sign in text
        for sign in ("FileNotFoundError", "ConnectionRefused", "Connection refused", "No such file")
    ):
        return "; start Docker (`systemctl start docker`, or Docker Desktop), or set DOCKER_HOST to a daemon that runs"
    if "PermissionError" in text or "Permission denied" in text:
        return "; join the group of its socket (`usermod -aG docker $USER`), or set DOCKER_HOST to a rootless daemon"
    return ""
