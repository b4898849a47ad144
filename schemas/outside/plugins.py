"""Registries: our own things by name, and those that other distributions add by entry points."""

import sys
from collections.abc import Callable, Collection
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from schemas.errors import UnknownName

T = TypeVar("T")


def known(group: str, own: Collection[str]) -> tuple[str, ...]:
    """All names of a registry, sorted; nothing is imported for it.

    Args:
        group: entry point group by which others add to it.
        own: names of ours.
    """
    return tuple(sorted({*own, *plugins(group)}))


def found(
    what: str,
    group: str,
    own: Collection[str],
    name: str,
    load_own: Callable[[str], T],
    remedy: str = "",
) -> T | Any:
    """One thing of a registry; ours comes before another's of the same name.

    Args:
        what: kind of thing, for the error.
        load_own: gives one of ours by its name.
        remedy: where to read on, for the error.

    Raises:
        UnknownName: lists the known names.
    """
    if name in own:
        return load_own(name)
    if name in (others := plugins(group)):
        return others[name].load()
    raise UnknownName(what, name, known(group, own), remedy)


def plugins(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group by name. Nothing is imported.

    Listing takes milliseconds, so it is done once for each state of `sys.path`.
    """
    return _found(group, tuple(sys.path))


@lru_cache(maxsize=32)
def _found(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}
