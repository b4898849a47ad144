"""Folders' lists of the tree store, compared and changed without touching a disk's folder."""

from collections.abc import Callable, Mapping
from typing import Any

from sandbox.workspace.interface import Entry

FOLDER, FILE, LINK = "folder", "file", "link"
ReadRow = Callable[[str], dict[str, Any]]
"""Digest of a folder -> its list."""
Changes = dict[str, tuple[Entry | None, Entry | None]]


def tree_changes(read: ReadRow, old: str, new: str) -> Changes:
    """Files and links that differ between two folders, by path: before and after."""
    found: Changes = {}
    _compare(read, "", read(old), read(new), found)
    return found


def _compare(
    read: ReadRow, path: str, old: Mapping[str, Any], new: Mapping[str, Any], found: Changes
) -> None:
    before, after = ({row[0]: row[1:] for row in listed["entries"]} for listed in (old, new))
    for name in sorted(before.keys() | after.keys()):
        sides = before.get(name), after.get(name)
        if sides[0] == sides[1]:
            continue
        below = [row if row and row[0] == FOLDER else None for row in sides]
        if any(below):
            inside = [read(row[2]) if row else {"entries": []} for row in below]
            _compare(read, f"{path}{name}/", inside[0], inside[1], found)
        was, now = (_entry(row) for row in sides)
        if was != now:
            found[f"{path}{name}"] = (was, now)


def _entry(row: Any) -> Entry | None:
    return None if row is None or row[0] == FOLDER else Entry(row[1], row[2], row[0] == LINK)


def entry_at(read: ReadRow, digest: str, path: str) -> Entry | None:
    """The file or link at a path; None where there is none."""
    *folders, name = path.split("/")
    for folder in folders:
        row = next((row for row in read(digest)["entries"] if row[0] == folder), None)
        if row is None or row[1] != FOLDER:
            return None
        digest = row[3]
    return next((_entry(row[1:]) for row in read(digest)["entries"] if row[0] == name), None)


def replaced(
    read: ReadRow,
    keep: Callable[[Mapping[str, Any]], str],
    entries: list[Any],
    files: Mapping[str, Entry | None],
) -> list[Any]:
    """A folder's entries with other files at these paths, or none. A folder that is left empty goes."""
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
        known = rows.get(name)
        inside = read(known[3])["entries"] if known and known[1] == FOLDER else []
        kept = replaced(read, keep, inside, inner)
        if kept:
            rows[name] = [name, FOLDER, 0o755, keep({"entries": kept})]
        else:
            rows.pop(name, None)
    return [rows[name] for name in sorted(rows)]
