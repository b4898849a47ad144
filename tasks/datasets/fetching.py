"""Fetch a public dataset from the first source that has it, with resume and verification."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import DataUnavailable, UsageError
from tasks.datasets import catalogue, download, git
from tasks.datasets.git import files_below
from tasks.datasets.public_data import (
    DataFolders,
    GitSource,
    HubSource,
    PublicDataset,
    Receipt,
    ReceivedFile,
    Source,
    received,
)
from tasks.storage.home import Home


@dataclass(frozen=True)
class Fetched:
    """Complete and verified dataset on this machine."""

    dataset: PublicDataset
    folder: Path
    receipt: Receipt
    was_there: bool
    """True if no file had to be fetched."""


def fetch_dataset(
    dataset: PublicDataset,
    home: Home,
    report: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
) -> Fetched:
    """Fetch a dataset unless it is already on this machine.

    Files that the user placed in the dataset's folder are verified and used.

    Args:
        dataset: Dataset to fetch.
        home: Home whose data folder receives the dataset.
        report: Called with a line of text before each transfer.
        environ: Environment variables of the process.

    Raises:
        UsageError: The dataset is not public, or another process is fetching it.
        DataUnavailable: No source has the dataset. The message lists the files to download by hand.
    """
    folders = DataFolders.of(home, environ)
    with folders.lock(dataset):
        existing = _verified_files(dataset, folders)
        if existing is not None:
            return Fetched(dataset, folders.folder(dataset), existing, was_there=True)
        if not dataset.sources:
            raise UsageError(f"{dataset.full_name} cannot be fetched. {dataset.note}")
        return Fetched(
            dataset,
            folders.folder(dataset),
            _from_sources(dataset, folders, report, environ),
            was_there=False,
        )


def _from_sources(
    dataset: PublicDataset,
    folders: DataFolders,
    report: Callable[[str], None],
    environ: Mapping[str, str],
) -> Receipt:
    faults: list[str] = []
    for number, source in enumerate(dataset.sources):
        into = folders.partial(dataset) / str(number)
        into.mkdir(parents=True, exist_ok=True)
        try:
            revision = _fetch(source, into, report, environ)
            files = _checked(dataset, into)
        except DataUnavailable as fault:
            faults.append(str(fault))
            report(f"source unavailable: {fault}")
            continue
        receipt = Receipt(source=source.address, revision=revision, files=files)
        _move(into, folders.folder(dataset), files)
        folders.write_receipt(dataset, receipt)
        shutil.rmtree(folders.partial(dataset))
        return receipt
    raise DataUnavailable(
        "\n".join(
            (
                f"{dataset.full_name} could not be fetched: {'; '.join(faults)}",
                *catalogue.lines_to_bring(dataset, folders),
            )
        )
    )


def _fetch(
    source: Source, into: Path, report: Callable[[str], None], environ: Mapping[str, str]
) -> str:
    if isinstance(source, HubSource):
        return download.fetch(source, into, report, environ)
    if isinstance(source, GitSource):
        return git.fetch(source, into, report, environ)
    return catalogue.fetch(source, into, report, environ)


def _verified_files(dataset: PublicDataset, folders: DataFolders) -> Receipt | None:
    """Return the receipt of the files on this machine if they can be verified, else None.

    Raises:
        DataUnavailable: A file exists but has the wrong content.
    """
    folder, receipt = folders.folder(dataset), folders.receipt(dataset)
    if receipt is not None and all((folder / place).is_file() for place in receipt.files):
        return (
            receipt
            if {place: received(folder / place) for place in receipt.files} == receipt.files
            else None
        )
    places = list(dataset.files) if dataset.files else [place for place, _ in files_below(folder)]
    if (
        not places
        or dataset.known_digest is None
        or not all((folder / place).is_file() for place in places)
    ):
        return None
    receipt = Receipt(
        source="brought by hand", files={place: received(folder / place) for place in places}
    )
    if fault := _fault(dataset, receipt):
        raise DataUnavailable(f"{folder}: {fault}. Remove it, or replace it with the right file")
    folders.write_receipt(dataset, receipt)
    return receipt


def _checked(dataset: PublicDataset, into: Path) -> dict[str, ReceivedFile]:
    """Return size and digest of each downloaded file.

    If a file is wrong, remove the download, so that the next attempt fetches it again.
    """
    receipt = Receipt(source="", files={place: received(path) for place, path in files_below(into)})
    if fault := _fault(dataset, receipt):
        shutil.rmtree(into)
        raise DataUnavailable(f"{fault}: its source has changed, or the transfer was damaged")
    return receipt.files


def _fault(dataset: PublicDataset, receipt: Receipt) -> str:
    """Describe the first file that differs from the expected content. Return "" if all match."""
    for place, facts in dataset.files.items():
        file = receipt.files.get(place)
        if file is None:
            return f"{place} is missing"
        if facts.sha256 not in (None, file.sha256):
            return f"{place} has sha256 {file.sha256}, not {facts.sha256}"
    if dataset.digest not in (None, receipt.digest):
        return f"the {len(receipt.files)} files have digest {receipt.digest}, not {dataset.digest}"
    return ""


def _move(into: Path, folder: Path, files: Mapping[str, ReceivedFile]) -> None:
    for place in files:
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(into / place, target)
