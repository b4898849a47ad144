"""Everything that `parley build` can make, across all benchmarks.

This module imports nothing that reads files, so that the list appears without delay.
"""

from tasks.benchmarks.construction import Construction
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.registry import BENCHMARKS
from tasks.benchmarks.results import Build, Layout


def builds() -> dict[str, tuple[Benchmark, Build]]:
    """Return every benchmark's builds by command-line name."""
    benchmarks = [BENCHMARKS.load(name) for name in BENCHMARKS.names()]
    return {
        f"{b.name}-{name}": (b, build)
        for b in benchmarks
        for name, build in b.results.builds.items()
    }


def layouts() -> dict[str, Layout]:
    """Return every benchmark's layouts by command-line name."""
    benchmarks = [BENCHMARKS.load(name) for name in BENCHMARKS.names()]
    return {
        f"{b.name}-{name}": layout for b in benchmarks for name, layout in b.results.layouts.items()
    }


def constructions() -> dict[str, tuple[Benchmark, Construction]]:
    """Map each NAME of `parley build NAME` to its benchmark and its construction of a dataset."""
    benchmarks = [BENCHMARKS.load(name) for name in BENCHMARKS.names()]
    return {
        f"{b.name}-{name}": (b, item) for b in benchmarks for name, item in b.constructions.items()
    }
