"""Sandboxes by name: ours, and others' through the entry point group `parley.sandboxes`."""

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
    """All known sandboxes, sorted; nothing is imported for it."""
    return registered_names(GROUP, BUILT_IN)


def default_name() -> str:
    """The sandbox to use where none is named: the zygote. Docker where bubblewrap cannot be had, or is missing beside a daemon.

    Nothing is started or checked; the sandbox's own `check` names whatever is missing.
    """
    if shutil.which("bwrap"):
        return "zygote"
    daemon_may_run = bool(os.environ.get("DOCKER_HOST")) or os.path.exists("/var/run/docker.sock")
    return "docker" if daemon_may_run or sys.platform != "linux" else "zygote"


def load(name: str, **options: Any) -> "Sandbox":
    """A sandbox of that name. Nothing is started or checked yet: see `Sandbox.check`.

    Args:
        options: keyword arguments of the backend, for example `bwrap_path`.

    Raises:
        UnknownName: lists what is known.
    """
    return _backend(name)(**options)


def load_with(name: str, modules: tuple[str, ...], packages: tuple[str, ...] = ()) -> "Sandbox":
    """Make a sandbox whose Python programs find these modules loaded, if its class can do so (`preloads = True`).

    Args:
        packages: folders of packages to use in place of Parley's own, if its class can do so (`takes_packages = True`).

    Raises:
        UnknownName: lists what is known.
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
