"""Benchmarks by name: ours, and others' through the entry point group `parley.benchmarks`."""

from importlib import import_module
from typing import TYPE_CHECKING

from schemas.outside.plugins import found, known

if TYPE_CHECKING:
    from tasks.benchmarks.contract import Benchmark

BUILT_IN: dict[str, str] = {
    "codeif": "tasks.benchmarks.codeif",
    "convcode": "tasks.benchmarks.convcode",
    "dialogue_swebench": "tasks.benchmarks.dialogue_swebench",
    "talk2code": "tasks.benchmarks.talk2code",
    "unidial": "tasks.benchmarks.unidial",
}
GROUP = "parley.benchmarks"
FIRST = next(iter(BUILT_IN))
"""Benchmark of examples and of the demo, where none is named."""


def names() -> tuple[str, ...]:
    """All known benchmarks, sorted; nothing is imported for it."""
    return known(GROUP, BUILT_IN)


def load(name: str) -> "Benchmark":
    """The benchmark of that name.

    Raises:
        UnknownName: lists the known names.
    """
    return found("benchmark", GROUP, BUILT_IN, name, _built_in, "See `parley list benchmarks`")


def _built_in(name: str) -> "Benchmark":
    return import_module(BUILT_IN[name]).BENCHMARK
