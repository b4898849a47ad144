"""Locate raw data by file, folder, hub dataset or public dataset name."""

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
    """Return the public dataset called `NAME` or `BENCHMARK/NAME`, or None."""
    return next(
        (
            dataset
            for dataset in datasets_of(benchmark)
            if data in (dataset.name, dataset.full_name)
        ),
        None,
    )


def locate(
    benchmark: Benchmark, data: str | None, version: str | None, home: Home
) -> tuple[str | None, str]:
    """Return the location of raw data and the dataset version under which to read them.

    Args:
        benchmark: Benchmark that reads the data.
        data: Path, dataset of the hub, or name of a fetched public dataset. None is returned
            unchanged. An existing path takes precedence over a name.
        version: Version named by the user. None means the version of the public dataset, or else
            the benchmark's default.
        home: Home whose data folder holds the public datasets.

    Raises:
        UsageError: The public dataset is not on this machine. The message names the command that
            fetches it.
        UnknownName: `data` is neither a path nor a dataset. The message suggests the nearest
            dataset.
    """
    usual = version or benchmark.data.default_version
    if data is None or is_hub_dataset(data) or Path(data).exists():
        return data, usual
    dataset, datasets = dataset_named(benchmark, data), datasets_of(benchmark)
    if dataset is None:
        if datasets and "/" not in data and "." not in data:
            raise unknown_dataset(data, datasets, "file, folder or dataset")
        return data, usual
    folders = DataFolders.of(home)
    if folders.state(dataset) not in (State.FETCHED, State.BROUGHT):
        raise UsageError(
            f"dataset {dataset.full_name} is not on this machine. {_how_to_get([dataset])}"
        )
    return str(folders.folder(dataset)), version or dataset.version


def how_to_get(benchmark: Benchmark, version: str, setting: str | None) -> str:
    """Return a sentence on how to get data of a version, or "" if no dataset has that version.

    Args:
        benchmark: Benchmark that needs the data.
        version: Dataset version.
        setting: Setting that must be able to use the dataset. None allows any.
    """
    return _how_to_get(
        [
            dataset
            for dataset in datasets_of(benchmark)
            if dataset.version == version and _plays(dataset, setting)
        ]
    )


def _plays(dataset: PublicDataset, setting: str | None) -> bool:
    return dataset.is_run and (setting is None or setting in (dataset.settings or (setting,)))


def _how_to_get(datasets: Collection[PublicDataset]) -> str:
    public = [dataset.name for dataset in datasets if dataset.sources]
    if not public:
        return " ".join(dataset.note.rstrip(".") for dataset in datasets)
    first, others = public[0], public[1:]
    also = f" (or {', '.join(others)})" if others else ""
    return (
        f"`parley data get {first}`{also} fetches it or lists the files to download by hand. "
        f"Then --data {first} uses it"
    )
