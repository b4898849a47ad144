"""Finds the files that dialogs' programs run in, below the folders that a user named, and gives each dialog their digest."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from schemas.dialog import MISSING, Dialog
from tasks.benchmarks.advanced import Resolve
from tasks.benchmarks.data import Staged
from tasks.storage.files.source_trees import TreeDigests, tree_digests
from tasks.storage.home import Home


@dataclass(frozen=True)
class Source:
    """Files that a dialog's programs run in."""

    resource: str
    """One of the benchmark's resources."""
    folder: str
    """Below the resource."""
    packages: str = ""
    """A folder below that one with installed packages, which are known by name and version."""


class FindSource(Protocol):
    """Tells which files a dialog's programs run in; None where they run in none."""

    def __call__(self, dialog: Dialog) -> Source | None: ...


class FitsSource(Protocol):
    """Tells whether a dialog's programs can run in the files of a folder: another release may lack what they change."""

    def __call__(self, dialog: Dialog, folder: Path) -> bool: ...


def trees_below_resources(source_of: FindSource, fits: FitsSource) -> Resolve:
    """A benchmark's hook that gives each dialog the digests of its files, which stay where the user has them.

    A dialog whose files are missing, or do not fit, is told so: it is not asked, and its scores are unscored for that.
    """

    def resolve(
        staged: Staged, source: Path | None, resources: Mapping[str, Path], home: Home
    ) -> Staged:
        known: dict[Source, TreeDigests | None] = {}

        def placed(dialog: Dialog) -> Dialog:
            place = source_of(dialog)
            if place is None:
                return dialog
            folder = (
                resources[place.resource] / place.folder if place.resource in resources else None
            )
            if place not in known:
                known[place] = (
                    tree_digests(folder, place.packages)
                    if folder is not None and folder.is_dir()
                    else None
                )
            digests = known[place]
            if digests is None or folder is None or not fits(dialog, folder):
                return dialog.with_tree(MISSING)
            return dialog.with_tree(digests.source, digests.packages)

        return replace(staged, dialogs=map(placed, staged.dialogs))

    return resolve
