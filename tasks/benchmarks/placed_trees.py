"""Source trees of dialogs, located below the folders that a user named."""

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
    """Location of the files in which a dialog's programs run."""

    resource: str
    """Name of the benchmark's resource."""
    folder: str
    """Folder relative to the resource."""
    packages: str = ""
    """Subfolder with installed packages, which are identified by name and version."""


class FindSource(Protocol):
    """Function that returns the location of a dialog's files, or None if it needs none."""

    def __call__(self, dialog: Dialog) -> Source | None: ...


class FitsSource(Protocol):
    """Function that checks if a dialog's programs can run in a folder's files.

    Another release may lack the files that the programs change.
    """

    def __call__(self, dialog: Dialog, folder: Path) -> bool: ...


def trees_below_resources(source_of: FindSource, fits: FitsSource) -> Resolve:
    """Return a `Resolve` hook that adds to each dialog the digests of its files.

    The files stay in the user's folder. A dialog whose files are missing or unsuitable is marked:
    it is not requested, and its scores are unscored for that reason.
    """

    def resolve(
        staged: Staged, source: Path | None, resources: Mapping[str, Path], home: Home
    ) -> Staged:
        digests_by_source: dict[Source, TreeDigests | None] = {}

        def with_tree(dialog: Dialog) -> Dialog:
            location = source_of(dialog)
            if location is None:
                return dialog
            folder = (
                resources[location.resource] / location.folder
                if location.resource in resources
                else None
            )
            if location not in digests_by_source:
                digests_by_source[location] = (
                    tree_digests(folder, location.packages)
                    if folder is not None and folder.is_dir()
                    else None
                )
            digests = digests_by_source[location]
            if digests is None or folder is None or not fits(dialog, folder):
                return dialog.with_tree(MISSING)
            return dialog.with_tree(digests.source, digests.packages)

        return replace(staged, dialogs=map(with_tree, staged.dialogs))

    return resolve
