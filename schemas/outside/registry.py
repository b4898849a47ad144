"""Registries: plug-ins by name, from Parley and from entry points of other distributions."""

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from schemas.errors import UnknownName

T = TypeVar("T")
Loaders = Mapping[str, Callable[[], T]]
"""Maps a name to the function that loads its plug-in."""


class Registry(Generic[T]):
    """Plug-ins of one kind by name.

    If another distribution's plug-in has the name of one of Parley's, Parley's is used.
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
            kind: kind of the plug-ins, for errors.
            group: entry point group through which other distributions add plug-ins.
            built_in: maps the name of each of Parley's own plug-ins to `module:attribute`.
            more: returns further plug-ins, which are known only at run time.
            remedy: sentence for errors that says where the names are listed.
        """
        self.kind, self.group, self.built_in, self.more, self.remedy = (
            kind,
            group,
            dict(built_in),
            more,
            remedy,
        )

    def names(self) -> tuple[str, ...]:
        """List all names, sorted. No plug-in is imported."""
        return tuple(sorted({*_entry_points(self.group), *self.more(), *self.built_in}))

    def load(self, name: str) -> T:
        """Load one plug-in.

        Raises:
            UnknownName: no plug-in has the name. The message lists the known names.
        """
        if name in self.built_in:
            return EntryPoint(name, self.built_in[name], self.group).load()
        if name in (more := self.more()):
            return more[name]()
        self.require(name)
        return _entry_points(self.group)[name].load()

    def module_of(self, name: str) -> str:
        """Return the name of the module that contains a built-in or installed plug-in."""
        built_in = self.built_in.get(name)
        return built_in.partition(":")[0] if built_in else _entry_points(self.group)[name].module

    def require(self, name: str) -> None:
        """Raise UnknownName, which lists the known names, if no plug-in has the name."""
        if name not in self.names():
            raise UnknownName(self.kind, name, self.names(), self.remedy)


def _entry_points(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in _all_entry_points(tuple(sys.path)).select(group=group)}


@lru_cache(maxsize=8)
def _all_entry_points(path: tuple[str, ...]) -> Any:
    """Return the entry points of all groups. The type differs between Python 3.11 and 3.12.

    Listing takes ten milliseconds, so it is done once for each state of `sys.path`.
    """
    return entry_points()
