"""Write instructions for bringing a dataset's files to a machine without a network."""

from collections.abc import Sequence

from tasks.benchmarks.public_data import FileFacts, HubSource, PublicDataset, Source
from tasks.datasets.folders import DataFolders

UNKNOWN = "not known"


def lines_to_bring(dataset: PublicDataset, folders: DataFolders) -> Sequence[str]:
    """Return the lines of the instructions, or only the note if the dataset is not public."""
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
