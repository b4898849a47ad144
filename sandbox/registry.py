"""Sandboxes by name: Parley's own, and those of the entry point group `parley.sandboxes`."""

import os
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from schemas.outside.registry import Registry

if TYPE_CHECKING:
    from sandbox.interface import Sandbox

SANDBOXES: "Registry[Callable[..., Sandbox]]" = Registry(
    "sandbox",
    "parley.sandboxes",
    {
        "bubblewrap": "sandbox.backends.bubblewrap.backend:BubblewrapSandbox",
        "docker": "sandbox.backends.docker.backend:DockerSandbox",
        "zygote": "sandbox.backends.zygote.backend:ZygoteSandbox",
        "none": "sandbox.backends.unisolated:UnisolatedSandbox",
    },
)


def default_name() -> str:
    """Return the name of the default sandbox: `zygote`, or in some cases `docker`.

    It is `docker` if bubblewrap is not installed and either the system is not Linux or a Docker
    daemon may be running. Nothing is started or checked: the sandbox's own `check` reports what is
    missing.
    """
    if shutil.which("bwrap"):
        return "zygote"
    daemon_may_run = bool(os.environ.get("DOCKER_HOST")) or os.path.exists("/var/run/docker.sock")
    return "docker" if daemon_may_run or sys.platform != "linux" else "zygote"


def load(name: str, **options: Any) -> "Sandbox":
    """Return the sandbox of this name. Nothing is started or checked yet: see `Sandbox.check`.

    Args:
        options: keyword arguments of the backend, for example `bwrap_path`.

    Raises:
        UnknownName: no sandbox has this name; the error lists all names.
    """
    return SANDBOXES.load(name)(**options)


def load_with(name: str, modules: tuple[str, ...], packages: tuple[str, ...] = ()) -> "Sandbox":
    """Return a sandbox that imports these modules before a Python program starts.

    Args:
        name: name of the sandbox.
        modules: modules to load before programs start, if the class has `preloads = True`.
        packages: folders of packages to use in place of Parley's own, if the class has
            `takes_packages = True`.

    Raises:
        UnknownName: no sandbox has this name; the error lists all names.
    """
    backend = SANDBOXES.load(name)
    options: dict[str, Any] = {"preload": modules} if getattr(backend, "preloads", False) else {}
    if packages and getattr(backend, "takes_packages", False):
        options["packages"] = packages
    return backend(**options)
