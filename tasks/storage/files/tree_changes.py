"""Functions that compare and edit the lists of files of stored folders."""

from collections.abc import Callable, Mapping
from typing import Any

from sandbox.workspace.interface import Entry

FOLDER, FILE, LINK = "folder", "file", "link"
ReadRow = Callable[[str], dict[str, Any]]
"""Function that returns the list of a folder with a digest."""
Changes = dict[str, tuple[Entry | None, Entry | None]]


def tree_changes(read: ReadRow, old: str, new: str) -> Changes:
    """Map each path whose file or link differs between two folders to both entries."""
    changes: Changes = {}
    _compare(read, "", read(old), read(new), changes)
    return changes


def _compare(
    read: ReadRow, path: str, old: Mapping[str, Any], new: Mapping[str, Any], changes: Changes
) -> None:
    before, after = ({row[0]: row[1:] for row in listed["entries"]} for listed in (old, new))
    for name in sorted(before.keys() | after.keys()):
        sides = before.get(name), after.get(name)
        if sides[0] == sides[1]:
            continue
        below = [row if row and row[0] == FOLDER else None for row in sides]
        if any(below):
            inside = [read(row[2]) if row else {"entries": []} for row in below]
            _compare(read, f"{path}{name}/", inside[0], inside[1], changes)
        first, second = (_entry(row) for row in sides)
        if first != second:
            changes[f"{path}{name}"] = (first, second)


def _entry(row: Any) -> Entry | None:
    return None if row is None or row[0] == FOLDER else Entry(row[1], row[2], row[0] == LINK)


def entry_at(read: ReadRow, digest: str, path: str) -> Entry | None:
    """Return the file or link at a path; None if there is none."""
    *folders, name = path.split("/")
    for folder in folders:
        row = next((row for row in read(digest)["entries"] if row[0] == folder), None)
        if row is None or row[1] != FOLDER:
            return None
        digest = row[3]
    return next((_entry(row[1:]) for row in read(digest)["entries"] if row[0] == name), None)


def replace_entries(
    read: ReadRow,
    keep: Callable[[Mapping[str, Any]], str],
    entries: list[Any],
    files: Mapping[str, Entry | None],
) -> list[Any]:
    """Return a folder's entries after files at some paths were replaced or removed.

    A folder that becomes empty is removed.

    Args:
        read: returns the list of a stored folder.
        keep: stores the list of a folder and returns its digest.
        entries: entries of the folder.
        files: new entries by path; None removes a file.
    """
    rows = {row[0]: row for row in entries}
    below: dict[str, dict[str, Entry | None]] = {}
    for path, entry in files.items():
        name, slash, rest = path.partition("/")
        if slash:
            below.setdefault(name, {})[rest] = entry
        elif entry is None:
            rows.pop(name, None)
        else:
            rows[name] = [name, LINK if entry.is_link else FILE, entry.mode, entry.what]
    for name, inner in below.items():
        row = rows.get(name)
        inside = read(row[3])["entries"] if row and row[1] == FOLDER else []
        new = replace_entries(read, keep, inside, inner)
        if new:
            rows[name] = [name, FOLDER, 0o755, keep({"entries": new})]
        else:
            rows.pop(name, None)
    return [rows[name] for name in sorted(rows)]
