"""Finds the files that dialogs' programs run in, below the folders that a user named, and gives each dialog their digest."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from schemas.dialog import MISSING, Dialog
from tasks.benchmarks.contract import Furnish, Staged
from tasks.storage.files.source_trees import tree_digest
from tasks.storage.home import Home


@dataclass(frozen=True)
class Source:
    """Files that a dialog's programs run in."""

    resource: str
    """One of the benchmark's resources."""
    folder: str
    """Below the resource."""


class FindSource(Protocol):
    """Tells which files a dialog's programs run in; None where they run in none."""

    def __call__(self, dialog: Dialog) -> Source | None: ...


def trees_below_resources(source_of: FindSource) -> Furnish:
    """A benchmark's hook that gives each dialog the digest of its files, which stay where the user has them.

    A dialog whose files are missing is told so: it is not asked, and its scores are unscored for that.
    """

    def furnish(staged: Staged, source: Path | None, resources: Mapping[str, Path], home: Home) -> Staged:
        known: dict[Source, str] = {}

        def placed(dialog: Dialog) -> Dialog:
            place = source_of(dialog)
            if place is None:
                return dialog
            if place not in known:
                known[place] = _digest(place, resources)
            return dialog.with_tree(known[place])

        return replace(staged, dialogs=tuple(map(placed, staged.dialogs)))

    return furnish


def _digest(place: Source, resources: Mapping[str, Path]) -> str:
    folder = resources[place.resource] / place.folder if place.resource in resources else None
    return tree_digest(folder) if folder is not None and folder.is_dir() else MISSING
