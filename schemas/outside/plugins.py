"""Registries: Parley's own objects by name, and those that other distributions register."""

import sys
from collections.abc import Callable, Collection
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from schemas.errors import UnknownName

T = TypeVar("T")


def registered_names(group: str, own: Collection[str]) -> tuple[str, ...]:
    """Return all names of a registry, sorted. Nothing is imported.

    Args:
        group: entry point group that other distributions use to add objects.
        own: names of Parley's own objects.
    """
    return tuple(sorted({*own, *plugins(group)}))


def load_registered(
    kind: str,
    group: str,
    own: Collection[str],
    name: str,
    load_own: Callable[[str], T],
    remedy: str = "",
) -> T | Any:
    """Load one object of a registry. Parley's own comes before another's of the same name.

    Args:
        kind: kind of object, for the error.
        group: entry point group that other distributions use to add objects.
        own: names of Parley's own objects.
        name: name of the object.
        load_own: function that loads one of Parley's own by its name.
        remedy: place to read on, for the error.

    Raises:
        UnknownName: no object has the name. The message lists the known names.
    """
    if name in own:
        return load_own(name)
    if name in (others := plugins(group)):
        return others[name].load()
    raise UnknownName(kind, name, registered_names(group, own), remedy)


def plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name. Nothing is imported.

    Listing takes milliseconds, so it is done once for each state of `sys.path`.
    """
    return _entry_points(group, tuple(sys.path))


@lru_cache(maxsize=32)
def _entry_points(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}
