"""Finds the raw data that a request names: a file, a folder, a dataset of the hub, or a public dataset by its name."""

from collections.abc import Collection
from pathlib import Path

from schemas.errors import UsageError
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.public_data import PublicDataset
from tasks.benchmarks.raw_tables import is_hub_dataset
from tasks.datasets.catalogue import datasets_of, unknown_dataset
from tasks.datasets.folders import DataFolders, State
from tasks.storage.home import Home


def dataset_named(benchmark: Benchmark, data: str) -> PublicDataset | None:
    """Return the public dataset that has this name, as `NAME` or `BENCHMARK/NAME`; None where none has."""
    return next((one for one in datasets_of(benchmark) if data in (one.name, one.full_name)), None)


def locate(
    benchmark: Benchmark, data: str | None, version: str | None, home: Home
) -> tuple[str | None, str]:
    """Return where raw data lie, and the dataset version that they are read as.

    Args:
        data: path, dataset of the hub, or name of a public dataset that was fetched; None stays None. A path comes first.
        version: what the user names; None stands for the public dataset's own, else the benchmark's default.

    Raises:
        UsageError: the public dataset is not on this machine; names the command that fetches it.
        UnknownName: neither a path nor a dataset; names the nearest dataset.
    """
    usual = version or benchmark.data.default_version
    if data is None or is_hub_dataset(data) or Path(data).exists():
        return data, usual
    dataset, known = dataset_named(benchmark, data), datasets_of(benchmark)
    if dataset is None:
        if known and "/" not in data and "." not in data:
            raise unknown_dataset(data, known, "file, folder or dataset")
        return data, usual
    folders = DataFolders.of(home)
    if folders.state(dataset) not in (State.FETCHED, State.BROUGHT):
        raise UsageError(
            f"dataset {dataset.full_name} is not on this machine. {_how_to_get([dataset])}"
        )
    return str(folders.folder(dataset)), version or dataset.version


def how_to_get(benchmark: Benchmark, version: str, setting: str | None) -> str:
    """Return a sentence that says how to get data of a version; empty where no dataset is of it.

    Args:
        setting: None stands for any.
    """
    return _how_to_get(
        [one for one in datasets_of(benchmark) if one.version == version and _plays(one, setting)]
    )


def _plays(dataset: PublicDataset, setting: str | None) -> bool:
    return dataset.is_run and (setting is None or setting in (dataset.settings or (setting,)))


def _how_to_get(datasets: Collection[PublicDataset]) -> str:
    public = [one.name for one in datasets if one.sources]
    if not public:
        return " ".join(one.note.rstrip(".") for one in datasets)
    first, others = public[0], public[1:]
    also = f" (or {', '.join(others)})" if others else ""
    return f"`parley data get {first}`{also} fetches it, or says which file to bring; then --data {first} uses it"
