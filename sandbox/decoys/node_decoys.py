"""Test files of a tree with one altered check in each graded test function."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sandbox.decoys.edits import Edit, as_failing, edited
from sandbox.decoys.python_checks import edits_of


@dataclass(frozen=True)
class AlteredTests:
    """Test files with altered checks."""

    files: Mapping[str, str]
    """Map from the name of a test file to its altered text."""
    failing_files: Mapping[str, str]
    """Map from the name of a test file to its text with checks that always fail. A test that passes
    nevertheless does not execute its check.
    """
    edits: Mapping[str, Edit]
    """Map from the node id, as the verdict has it, to the edit in the node's test function."""


def altered_tests(
    files: Mapping[str, str], nodes: Sequence[str], draw: random.Random
) -> AlteredTests:
    """Alter one check of each test function that the nodes name.

    Alterations of constants are preferred to negations. Checks that are perhaps not executed (in
    loops, branches, exception handlers) are left unchanged.

    Args:
        files: map from name to text of the graded test files.
        nodes: pytest ids: `FILE::Class::method[parameters]`, `FILE::Class` or `FILE`.
        draw: source of random choices.
    """
    changed: dict[str, str] = {}
    failing: dict[str, str] = {}
    by_node: dict[str, Edit] = {}
    for name, text in files.items():
        own = [node for node in nodes if node.partition("::")[0] == name]
        by_scope: dict[str, list[Edit]] = {}
        for edit in (edit for edit in edits_of(text, draw) if edit.reach != "maybe"):
            by_scope.setdefault(edit.scope, []).append(edit)
        chosen = {
            scope: _chosen(edits, draw)
            for scope, edits in by_scope.items()
            if _nodes_of(scope, own)
        }
        if chosen:
            changed[name] = edited(text, chosen.values())
            failing[name] = edited(text, map(as_failing, chosen.values()))
            by_node |= {
                node: edit for scope, edit in chosen.items() for node in _nodes_of(scope, own)
            }
    return AlteredTests(changed, failing, by_node)


def _nodes_of(scope: str, nodes: Sequence[str]) -> list[str]:
    """Return the nodes to which this scope belongs."""
    return [
        node
        for node in nodes
        if scope and f"{scope}.".startswith(f"{_scope(node)}.") and _scope(node)
    ]


def _scope(node: str) -> str:
    return ".".join(node.partition("[")[0].split("::")[1:])


def _chosen(edits: Sequence[Edit], draw: random.Random) -> Edit:
    """Choose one edit; preferably of a constant in a check that is certainly executed."""
    ranked = sorted(edits, key=_rank)
    return draw.choice([edit for edit in ranked if _rank(edit) == _rank(ranked[0])])


def _rank(edit: Edit) -> tuple[int, bool, bool]:
    return (
        ("certain", "held", "maybe").index(edit.reach),
        not edit.is_strict,
        edit.kind != "constant",
    )
