"""Programs with the files that they run in, wherever those lie on this machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sandbox.judging.runners.programs import TestProgram, program_of
from schemas.errors import Unscorable
from schemas.problem import SuiteKind
from schemas.verdict import FailureReason
from tasks.dialogue.programs import Place, Tree
from tasks.storage.files.source_trees import tree_files

Resources = Sequence[tuple[str, str]]
NO_TREE = Tree("", Path())
"""Of a program that has an entry point and runs in no tree."""


def program_in_place(
    resources: Resources, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None
) -> TestProgram:
    """The program of an answer, with the files of its tree.

    Raises:
        Unscorable: the tree is not there, or lacks what the answer is to take the place of.
    """
    if place is None:
        return program_of(kind, code, tests)
    try:
        return program_of(kind, code, tests, place.entry_point, _files(resources, place.tree), place.placing)
    except LookupError as missing:
        said = f"the tree {place.tree.folder} is another one than the dataset's: {missing.args[0]}"
        raise Unscorable(said, FailureReason.SOURCE_MISSING) from None


def _files(resources: Resources, tree: Tree) -> Mapping[str, bytes]:
    if tree is NO_TREE:
        return {}
    folder = tree.folder
    if tree.resource:
        folders = dict(resources)
        if tree.resource not in folders:
            raise Unscorable(f"the run names no resource {tree.resource!r} for {folder}", FailureReason.SOURCE_MISSING)
        folder = Path(folders[tree.resource]) / folder
    if not folder.is_dir():
        raise Unscorable(f"the tree that its tests run in is not there: {folder}", FailureReason.SOURCE_MISSING)
    return tree_files(folder, tree.digest)
