"""Finds the entry points by which other distributions add to Parley's registries."""

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points


def plugins(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group by name. Nothing is imported.

    Listing takes milliseconds, so it is done once for each state of `sys.path`.
    """
    return _found(group, tuple(sys.path))


@lru_cache(maxsize=32)
def _found(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}
