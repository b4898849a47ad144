"""Registry of sandboxes: Parley's own, and others from the entry point group `parley.sandboxes`."""

import os
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from schemas.outside.plugins import load_registered, registered_names

if TYPE_CHECKING:
    from sandbox.interface import Sandbox

BUILT_IN: dict[str, str] = {
    "bubblewrap": "sandbox.backends.bubblewrap.backend:BubblewrapSandbox",
    "docker": "sandbox.backends.docker.backend:DockerSandbox",
    "zygote": "sandbox.backends.zygote.backend:ZygoteSandbox",
    "none": "sandbox.backends.unisolated:UnisolatedSandbox",
}
GROUP = "parley.sandboxes"


def names() -> tuple[str, ...]:
    """Return the names of all sandboxes, sorted. Nothing is imported."""
    return registered_names(GROUP, BUILT_IN)


def default_name() -> str:
    """Return the name of the sandbox to use by default.

    It is `zygote` if bubblewrap is installed. Otherwise it is `docker` if a daemon may be running
    or the system is not Linux, and else `zygote`. Nothing is started or checked: the sandbox's own
    `check` reports what is missing.
    """
    if shutil.which("bwrap"):
        return "zygote"
    daemon_may_run = bool(os.environ.get("DOCKER_HOST")) or os.path.exists("/var/run/docker.sock")
    return "docker" if daemon_may_run or sys.platform != "linux" else "zygote"


def load(name: str, **options: Any) -> "Sandbox":
    """Make the sandbox with this name. Nothing is started or checked yet: see `Sandbox.check`.

    Args:
        name: name of the sandbox.
        options: keyword arguments of the backend, such as `bwrap_path`.

    Raises:
        UnknownName: no sandbox has the name. The message lists the known names.
    """
    return _backend(name)(**options)


def load_with(name: str, modules: tuple[str, ...], packages: tuple[str, ...] = ()) -> "Sandbox":
    """Make a sandbox whose Python programs start with these modules loaded.

    Args:
        name: name of the sandbox.
        modules: modules to load. Ignored unless the sandbox's class has `preloads = True`.
        packages: folders of packages to use instead of Parley's own. Ignored unless the class has
            `takes_packages = True`.

    Raises:
        UnknownName: no sandbox has the name. The message lists the known names.
    """
    backend = _backend(name)
    options: dict[str, Any] = {"preload": modules} if getattr(backend, "preloads", False) else {}
    if packages and getattr(backend, "takes_packages", False):
        options["packages"] = packages
    return backend(**options)


def _backend(name: str) -> "Callable[..., Sandbox]":
    return load_registered("sandbox", GROUP, BUILT_IN, name, _built_in)


def _built_in(name: str) -> "Callable[..., Sandbox]":
    module, _, attribute = BUILT_IN[name].partition(":")
    return getattr(import_module(module), attribute)
