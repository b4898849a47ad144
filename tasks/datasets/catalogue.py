"""Lists the public datasets of all benchmarks, and finds them by name."""

from collections.abc import Sequence

from schemas.errors import UnknownName
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.public_data import PublicDataset, read_datasets
from tasks.benchmarks.registry import BENCHMARKS


def datasets_of(benchmark: Benchmark) -> tuple[PublicDataset, ...]:
    """Return the public datasets that a benchmark declares."""
    return read_datasets(benchmark.data.public, benchmark.name)


def all_datasets() -> tuple[PublicDataset, ...]:
    """Return the public datasets of every benchmark, by benchmark."""
    return tuple(
        dataset for name in BENCHMARKS.names() for dataset in datasets_of(BENCHMARKS.load(name))
    )


def find_datasets(name: str) -> tuple[PublicDataset, ...]:
    """Return the datasets that a user's name means.

    Args:
        name: `NAME`, of all benchmarks that have one; `BENCHMARK/NAME`; or `BENCHMARK`, for all of its datasets.

    Raises:
        UnknownName: no dataset has this name; names the nearest one, and all.
    """
    known = all_datasets()
    found = tuple(one for one in known if name in (one.name, one.full_name, one.benchmark))
    if not found:
        raise unknown_dataset(name, known)
    return found


def unknown_dataset(
    name: str, known: Sequence[PublicDataset], kind: str = "dataset"
) -> UnknownName:
    """Return the error for a name that no dataset has; it names the nearest one."""
    names = tuple(dict.fromkeys(one.name for one in known))
    return UnknownName(kind, name, names, "`parley data` shows them all")
