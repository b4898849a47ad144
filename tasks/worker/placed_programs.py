"""Programs together with the files that they run in on this machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sandbox.judging.runners.programs import TestProgram, program_of
from schemas.dialog import MISSING
from schemas.errors import SandboxUnavailable, Unscorable
from schemas.problem import SuiteKind
from schemas.verdict import FailureReason
from tasks.dialogue.programs import Place, Tree
from tasks.storage.files.source_trees import TreeDigests, tree_files

Resources = Sequence[tuple[str, str]]
NO_TREE = Tree("", Path())
"""Tree of a program that has an entry point and runs in no tree."""


def program_in_place(
    resources: Resources, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None
) -> TestProgram:
    """Return the program of an answer, with the files of its tree.

    Raises:
        SandboxUnavailable: The tree existed at planning and is now missing or changed.
        Unscorable: The tree never existed, or lacks the file that the answer replaces.
    """
    if place is None:
        return program_of(kind, code, tests)
    files = _files(resources, place.tree, place.placing.environment if place.placing else "")
    try:
        return program_of(kind, code, tests, place.entry_point, files, place.placing)
    except LookupError as missing:
        message = (
            f"the tree {place.tree.folder} is another one than the dataset's: {missing.args[0]}"
        )
        raise Unscorable(message, FailureReason.SOURCE_MISSING) from None


def _files(resources: Resources, tree: Tree, packages: str) -> Mapping[str, bytes]:
    if tree is NO_TREE:
        return {}
    root = dict(resources).get(tree.resource) if tree.resource else ""
    if root is None:
        raise _absent(tree, f"the run names no resource {tree.resource!r} for {tree.folder}")
    folder = Path(root) / tree.folder
    if not folder.is_dir():
        raise _absent(tree, f"the tree that its tests run in is not there: {folder}")
    try:
        return tree_files(folder, TreeDigests(tree.digest, tree.packages), packages)
    except OSError as fault:
        raise SandboxUnavailable(
            f"the tree {folder} cannot be read: {fault}. Mend that, and begin the command again"
        ) from fault


def _absent(tree: Tree, message: str) -> SandboxUnavailable | Unscorable:
    """Return the error for a missing tree.

    A tree that existed at planning is missing through a fault of the machine, not of the answer.
    """
    if tree.digest == MISSING:
        return Unscorable(message, FailureReason.SOURCE_MISSING)
    return SandboxUnavailable(
        f"{message}. It was there when the run was planned: bring it back, "
        "and begin the command again"
    )
