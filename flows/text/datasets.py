"""Facts about public datasets, and how their rows are graded, as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.errors import DataUnavailable, UsageError
from schemas.grouping import grouped
from tasks.benchmarks.registry import BENCHMARKS
from tasks.benchmarks.staging import GradeRoute
from tasks.datasets.catalogue import UNKNOWN, lines_to_bring, n_staged
from tasks.datasets.public_data import DataFolders, PublicDataset, Receipt, State
from tasks.storage.home import Home

COLUMNS = ("dataset", "source", "licence", "rows", "size", "sha256", "here")
_DIGITS = 7
_DASH = "–"
"""Text of a table cell whose fact is unknown."""
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
    name = first.get("hub") or first.get("package") or "/".join(first["git"].split("/")[-2:])
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


ROUTE_COLUMNS = ("project", "versions", "Python", "runner", "rows", "gradable")


def routes_of(dataset: PublicDataset, home: Home) -> Sequence[GradeRoute]:
    """Return how each row of a dataset is graded.

    The facts come from the dataset's files if these are on this machine, else from bundled facts.

    Raises:
        UsageError: the benchmark grades all answers in the same way.
        DataUnavailable: the files are not on this machine, and there are no bundled facts.
    """
    list_routes = BENCHMARKS.load(dataset.benchmark).data.grade_routes
    if list_routes is None:
        raise UsageError(
            f"{dataset.full_name}: all rows are graded in the same way, so --routes has no"
            " effect. Remove it"
        )
    folders = DataFolders.of(home)
    is_here = folders.state(dataset) in (State.FETCHED, State.BROUGHT)
    routes = list_routes(dataset.name, folders.folder(dataset) if is_here else None)
    if routes is None:
        raise DataUnavailable(
            f"{dataset.full_name}: its files are not on this machine. Run `parley data get"
            f" {dataset.full_name}` first"
        )
    return routes


def table_rows(routes: Sequence[GradeRoute]) -> list[tuple[str, ...]]:
    """Return a table row for each group of dataset rows that are graded in the same way."""
    return [
        (
            route.project or "(no route)",
            _span(route.versions),
            route.python,
            " ".join(route.command) or route.runner,
            f"{len(route.problem_ids):,}",
            f"{route.n_gradable:,}",
        )
        for route in routes
    ]


def summary_lines(routes: Sequence[GradeRoute]) -> list[str]:
    """Return lines with the totals, and with the rows that cannot be graded, grouped by reason."""
    n_rows = sum(len(route.problem_ids) for route in routes)
    n_routed = sum(len(route.problem_ids) for route in routes if route.runner)
    by_reason = grouped(
        (reason, name) for route in routes for name, reason in route.exceptions.items()
    )
    n_gradable = sum(route.n_gradable for route in routes)
    return [
        f"{n_rows:,} rows: {n_routed:,} have a runner, {n_gradable:,} are gradable without a"
        " network",
        *(
            f"  not gradable ({len(names)}): {reason}: {', '.join(names)}"
            for reason, names in by_reason.items()
        ),
    ]


def _span(versions: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys((*versions[:1], *versions[-1:])))
