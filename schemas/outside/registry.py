"""Things by name: Parley's own, and those that other distributions add by entry points."""

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from schemas.errors import UnknownName

T = TypeVar("T")
Loaders = Mapping[str, Callable[[], T]]
"""Name -> function that loads the thing."""


class Registry(Generic[T]):
    """Things of one kind by name.

    A thing of ours comes before another distribution's of the same name.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        built_in: Mapping[str, str],
        more: Callable[[], Loaders[T]] = dict,
        remedy: str = "",
    ) -> None:
        """Declare a registry; nothing is imported.

        Args:
            kind: what a thing is, for errors.
            group: entry point group by which other distributions add to the registry.
            built_in: name -> `module:attribute` of our own things.
            more: returns further things of ours, which are found as the program runs.
            remedy: where to read on, for errors.
        """
        self.kind, self.group, self.built_in, self.more, self.remedy = (
            kind,
            group,
            dict(built_in),
            more,
            remedy,
        )

    def names(self) -> tuple[str, ...]:
        """List all names, sorted. No thing is imported."""
        return tuple(
            sorted({*_entry_points(self.group, tuple(sys.path)), *self.more(), *self.built_in})
        )

    def load(self, name: str) -> T:
        """Load one thing.

        Raises:
            UnknownName: lists the known names.
        """
        if name in self.built_in:
            return EntryPoint(name, self.built_in[name], self.group).load()
        if name in (more := self.more()):
            return more[name]()
        self.require(name)
        return _entry_points(self.group, tuple(sys.path))[name].load()

    def require(self, name: str) -> None:
        """Raise UnknownName where nothing has the name; it lists the known names."""
        if name not in self.names():
            raise UnknownName(self.kind, name, self.names(), self.remedy)


@lru_cache(maxsize=32)
def _entry_points(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name.

    Listing takes milliseconds: once for each state of `sys.path`.
    """
    return {point.name: point for point in entry_points(group=group)}
