"""Benchmarks by name: ours, and others' through the entry point group `parley.benchmarks`."""

from importlib import import_module
from typing import TYPE_CHECKING

from schemas.errors import UnknownName
from schemas.plugins import plugins

if TYPE_CHECKING:
    from tasks.benchmarks.contract import Benchmark

BUILT_IN: dict[str, str] = {
    "codeif": "tasks.benchmarks.codeif",
    "convcode": "tasks.benchmarks.convcode",
}
GROUP = "parley.benchmarks"
FIRST = next(iter(BUILT_IN))
"""Benchmark of examples and of the demo, where none is named."""


def names() -> tuple[str, ...]:
    """All known benchmarks, sorted; nothing is imported for it."""
    return tuple(sorted({*BUILT_IN, *plugins(GROUP)}))


def load(name: str) -> "Benchmark":
    """The benchmark of that name.

    Raises:
        UnknownName: lists the known names.
    """
    if name in BUILT_IN:
        return import_module(BUILT_IN[name]).BENCHMARK
    if name in (found := plugins(GROUP)):
        return found[name].load()
    raise UnknownName("benchmark", name, names(), "See `parley list benchmarks`")
