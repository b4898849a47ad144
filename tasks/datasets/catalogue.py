"""List the public datasets of all benchmarks and find them by name."""

from collections.abc import Sequence

from schemas.errors import UnknownName
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.public_data import PublicDataset, read_datasets
from tasks.benchmarks.registry import BENCHMARKS


def datasets_of(benchmark: Benchmark) -> tuple[PublicDataset, ...]:
    """Return the public datasets that a benchmark declares."""
    return read_datasets(benchmark.data.public, benchmark.name)


def all_datasets() -> tuple[PublicDataset, ...]:
    """Return the public datasets of every benchmark, in order of benchmark names."""
    return tuple(
        dataset for name in BENCHMARKS.names() for dataset in datasets_of(BENCHMARKS.load(name))
    )


def find_datasets(name: str) -> tuple[PublicDataset, ...]:
    """Return the datasets that match a name given by the user.

    Args:
        name: `NAME` (in every benchmark that has it), `BENCHMARK/NAME`, or `BENCHMARK` for all
            datasets of that benchmark.

    Raises:
        UnknownName: No dataset has this name. The message suggests the nearest name and lists all.
    """
    datasets = all_datasets()
    matches = tuple(
        dataset
        for dataset in datasets
        if name in (dataset.name, dataset.full_name, dataset.benchmark)
    )
    if not matches:
        raise unknown_dataset(name, datasets)
    return matches


def unknown_dataset(
    name: str, datasets: Sequence[PublicDataset], kind: str = "dataset"
) -> UnknownName:
    """Return the error for an unknown dataset name, with the nearest known name."""
    names = tuple(dict.fromkeys(dataset.name for dataset in datasets))
    return UnknownName(kind, name, names, "`parley data` shows them all")
