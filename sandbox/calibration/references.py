"""Reference solutions with their tests: programs that must pass on every machine."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from schemas.errors import SourceUnreadable

_FIELDS = ("task_id", "prompt", "canonical_solution", "entry_point", "test")
_SUFFIXES = (".jsonl", ".jsonl.gz")


@dataclass(frozen=True)
class Reference:
    """One reference solution. `tests` are statements."""

    task_id: str
    code: str
    tests: tuple[str, ...]


def bundled_references() -> tuple[Reference, ...]:
    """Return the bundled references: short ones, and one that takes a second or two."""
    text = files("sandbox.calibration").joinpath("references.jsonl").read_text(encoding="utf-8")
    return tuple(_reference(json.loads(line)) for line in text.splitlines())


def known_faults() -> frozenset[str]:
    """Return the ids of published tasks whose reference fails its tests through faulty data."""
    text = files("sandbox.calibration").joinpath("known_faults.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


def read_references(path: Path) -> tuple[Reference, ...]:
    """Read the Python tasks of all JSONL files (plain or gzip) at a path.

    The path is a file, or a folder that is searched with its subfolders. A row is a task if it has
    `task_id`, `prompt`, `canonical_solution`, `entry_point` and `test`, and its `language` is
    Python or missing. Equal programs count once.

    Raises:
        SourceUnreadable: there is no such task.
    """
    places = (path,) if path.is_file() else sorted((*path.glob("*"), *path.glob("*/*")))
    rows = (
        row
        for place in places
        if place.name.endswith(_SUFFIXES) and place.is_file()
        for row in _rows(place)
    )
    references: dict[tuple[str, ...], Reference] = {}
    for row in rows:
        if all(isinstance(row.get(name), str) for name in _FIELDS) and row.get("language") in (
            None,
            "python",
        ):
            reference = _reference(row)
            references.setdefault((reference.code, *reference.tests), reference)
    if not references:
        raise SourceUnreadable(
            f"{path}: no reference solutions found. They are JSONL (or .jsonl.gz) files of "
            f"Python tasks with {', '.join(_FIELDS)}"
        )
    return tuple(references.values())


def _rows(place: Path) -> Iterator[dict[str, Any]]:
    try:
        with (
            gzip.open(place, "rt", encoding="utf-8")
            if place.name.endswith(".gz")
            else place.open(encoding="utf-8") as file
        ):
            for line in file:
                row = json.loads(line)
                if not isinstance(row, dict):
                    return
                yield row
    except (OSError, EOFError, ValueError) as error:
        raise SourceUnreadable(f"{place}: {error}") from error


def _reference(row: dict[str, Any]) -> Reference:
    return Reference(
        row["task_id"],
        row["prompt"] + row["canonical_solution"],
        (row["test"], f"check({row['entry_point']})"),
    )
