"""What `parley build` makes, of all benchmarks. Imports nothing that reads files, so that a list of it comes at once."""

from tasks.benchmarks.construction import Construction
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.registry import BENCHMARKS
from tasks.benchmarks.results import Build, Layout


def builds() -> dict[str, tuple[Benchmark, Build]]:
    """Every benchmark's builds, by the name to type."""
    benchmarks = [BENCHMARKS.load(name) for name in BENCHMARKS.names()]
    return {
        f"{b.name}-{name}": (b, build)
        for b in benchmarks
        for name, build in b.results.builds.items()
    }


def layouts() -> dict[str, Layout]:
    """Every benchmark's layouts, by the name to type."""
    benchmarks = [BENCHMARKS.load(name) for name in BENCHMARKS.names()]
    return {
        f"{b.name}-{name}": layout for b in benchmarks for name, layout in b.results.layouts.items()
    }


def constructions() -> dict[str, tuple[Benchmark, Construction]]:
    """Every benchmark's constructions, by the name to type."""
    benchmarks = [BENCHMARKS.load(name) for name in BENCHMARKS.names()]
    return {
        f"{b.name}-{name}": (b, made) for b in benchmarks for name, made in b.constructions.items()
    }
