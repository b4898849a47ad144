"""List the public datasets of all benchmarks and find them by name."""

from collections.abc import Sequence

from schemas.errors import UnknownName
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.registry import BENCHMARKS
from tasks.datasets.public_data import (
    DataFolders,
    FileFacts,
    HubSource,
    PublicDataset,
    Source,
    read_datasets,
)


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


UNKNOWN = "not known"


def lines_to_bring(dataset: PublicDataset, folders: DataFolders) -> Sequence[str]:
    """Return instructions to download files by hand, or the note if the dataset is not public."""
    if not dataset.sources:
        return (dataset.note,)
    files = tuple(f"  {place} ({_facts(facts)})" for place, facts in dataset.files.items())
    where = tuple(line for source in dataset.sources for line in _described(source))
    return (
        f"Without a network, put these files into {folders.folder(dataset)}:",
        *(files or ("  those named below, under the names after the arrows",)),
        "They are published at:",
        *where,
        *_next_lines(dataset, folders),
        *((dataset.note,) if dataset.note else ()),
    )


def _next_lines(dataset: PublicDataset, folders: DataFolders) -> Sequence[str]:
    verified = (
        f"Then `parley data get {dataset.full_name}` verifies them."
        if dataset.known_digest
        else "Without a known digest nothing can verify them."
    )
    return (
        f"{verified} --data {dataset.name} uses them: {dataset.command(folders.folder(dataset))}",
    )


def _described(source: Source) -> Sequence[str]:
    archive = "" if isinstance(source, HubSource) else getattr(source, "archive", None)
    head = f"  {source.address}" + (f", in its file {archive}" if archive else "")
    return (head, *(f"    {path} -> {place}" for path, place in source.files.items()))


def _facts(facts: FileFacts) -> str:
    size = f"{facts.bytes:,} bytes" if facts.bytes is not None else f"size {UNKNOWN}"
    rows = f", {facts.rows:,} rows" if facts.rows is not None else ""
    return f"{size}{rows}, sha256 {facts.sha256 or UNKNOWN}"
