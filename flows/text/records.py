"""Rows of query results as records, and records as Markdown."""

from collections.abc import Iterable, Sequence
from typing import Any

from schemas.outside.display import markdown_cell
from tasks.storage.home import Home


def as_records(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return each row as a map from column to value."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


def published_records(home: Home, query: str, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the records of a named query about runs.

    There are none without runs, or if nothing was ever published.
    """
    from warehouse.connect import named_query

    if not run_ids or not home.warehouse.exists():
        return []
    return as_records(*named_query(home.path, query, run_ids=list(run_ids)))


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], width: int = 120) -> str:
    """Return a Markdown table. All cells are escaped, and cut to `width` characters."""
    lines = [
        "| " + " | ".join(markdown_cell(cell, width) for cell in row) + " |"
        for row in (columns, *rows)
    ]
    return "\n".join([lines[0], "|" + " --- |" * len(columns), *lines[1:]])
