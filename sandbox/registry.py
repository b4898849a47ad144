"""Sandboxes by name: ours, and others' through the entry point group `parley.sandboxes`."""

from importlib import import_module
from typing import Any

from sandbox.interface import Sandbox
from schemas.errors import UnknownName
from schemas.plugins import plugins

BUILT_IN: dict[str, str] = {
    "bubblewrap": "sandbox.bubblewrap_backend:BubblewrapSandbox",
    "none": "sandbox.unisolated_backend:UnisolatedSandbox",
}
GROUP = "parley.sandboxes"


def names() -> tuple[str, ...]:
    """All known sandboxes, sorted; nothing is imported for it."""
    return tuple(sorted({*BUILT_IN, *plugins(GROUP)}))


def load(name: str, **options: Any) -> Sandbox:
    """A sandbox of that name. Nothing is started or checked yet: see `Sandbox.check`.

    Args:
        options: keyword arguments of the backend, for example `bwrap_path`.

    Raises:
        UnknownName: lists what is known.
    """
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return getattr(import_module(module), attribute)(**options)
    if name in (found := plugins(GROUP)):
        return found[name].load()(**options)
    raise UnknownName("sandbox", name, names())
