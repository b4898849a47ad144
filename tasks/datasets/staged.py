"""Count the problems of a public dataset that are staged in the lake."""

from pathlib import PurePosixPath

from schemas.errors import ParleyError
from tasks.benchmarks.public_data import PublicDataset
from tasks.datasets.folders import DataFolders
from tasks.datasets.matching import matches_place
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake


def n_staged(dataset: PublicDataset, folders: DataFolders, home: Home) -> int | None:
    """Return the number of staged problems read from files with the dataset's names.

    All editions of the dataset count. Return None if the lake cannot be read because its format is
    older or its store does not respond.
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
