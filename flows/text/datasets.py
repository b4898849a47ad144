"""Facts about public datasets, as records and as text for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.benchmarks.public_data import PublicDataset
from tasks.datasets.folders import DataFolders, Receipt, State
from tasks.datasets.instructions import UNKNOWN, lines_to_bring
from tasks.datasets.staged import n_staged
from tasks.storage.home import Home

COLUMNS = ("dataset", "source", "licence", "rows", "size", "sha256", "here")
_DIGITS = 7
_DASH = "–"
"""Cell of an unknown fact."""
_UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def dataset_record(dataset: PublicDataset, home: Home) -> dict[str, Any]:
    """Return all facts about a dataset and its local files. An unknown fact is None."""
    folders = DataFolders.of(home)
    receipt, folder = folders.receipt(dataset), folders.folder(dataset)
    return {
        "name": dataset.name,
        "benchmark": dataset.benchmark,
        "title": dataset.title,
        "dataset_version": dataset.version,
        "settings": list(dataset.settings),
        "licence": dataset.licence,
        "rows": dataset.known_rows,
        "bytes": dataset.known_bytes,
        "sha256": dataset.known_digest,
        "files": {place: facts.model_dump() for place, facts in dataset.files.items()},
        "sources": [
            {"address": source.address, **source.model_dump(exclude_none=True)}
            for source in dataset.sources
        ],
        "here": folders.state(dataset).value,
        "folder": str(folder),
        "fetched": receipt.model_dump() if receipt is not None else None,
        "staged": n_staged(dataset, folders, home),
        "use": dataset.command(folder),
        "note": dataset.note,
    }


def dataset_row(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the row of a dataset in the table of datasets. Digests and sources are shortened."""
    digest = record["sha256"] or (
        record["fetched"] and Receipt.model_validate(record["fetched"]).digest
    )
    here = "" if record["here"] == State.ABSENT else record["here"]
    return (
        record["name"],
        _short_source(record["sources"]),
        record["licence"],
        _DASH if record["rows"] is None else f"{record['rows']:,}",
        _DASH if record["bytes"] is None else size_text(record["bytes"]),
        digest[:_DIGITS] if digest else _DASH,
        ", ".join(filter(None, (here, f"{record['staged']:,} staged" if record["staged"] else ""))),
    )


def _short_source(sources: Sequence[Mapping[str, Any]]) -> str:
    """Return the first source without its host and revision."""
    if not sources:
        return "not public"
    first = sources[0]
    name = (
        "/".join(first["git"].rsplit("/", 2)[-2:])
        if "git" in first
        else first.get("hub") or first["package"]
    )
    return f"{first['address'].partition(' ')[0]} {name}"


def size_text(n_bytes: int) -> str:
    """Return a size with unit, to three digits."""
    for unit, size in _UNITS:
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes} B"


def described(dataset: PublicDataset, home: Home) -> Sequence[str]:
    """Return the lines that describe a dataset: facts, sources, and the files to copy by hand."""
    record = dataset_record(dataset, home)
    state = (
        record["here"]
        if record["here"] == State.ABSENT
        else f"{record['here']}, in {record['folder']}"
    )
    rows, size, digest = record["rows"], record["bytes"], record["sha256"]
    facts = {
        "licence": dataset.licence,
        "rows": UNKNOWN if rows is None else f"{rows:,}",
        "size": UNKNOWN if size is None else size_text(size),
        "sha256": digest or UNKNOWN,
    }
    return (
        f"{dataset.full_name}: {dataset.title}",
        " · ".join(f"{name}: {fact}" for name, fact in facts.items()),
        f"read as dataset version {dataset.version} of {dataset.benchmark}"
        + (f", for {', '.join(dataset.settings)}" if dataset.settings else ""),
        f"here: {state}; staged rows: {UNKNOWN if record['staged'] is None else record['staged']}",
        *lines_to_bring(dataset, DataFolders.of(home)),
    )
