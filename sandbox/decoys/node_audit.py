"""Audit of passed pytest nodes in a working folder.

The graded test files run again with altered checks, in a fresh copy of the folder.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sandbox.decoys.edits import Edit, as_failing, edited
from sandbox.decoys.python_audit import CONTRADICTS, REFERENCE_FAILS, UNPROVEN
from sandbox.decoys.python_checks import edits_of
from sandbox.decoys.trial import Cost
from sandbox.interface import Sandbox
from sandbox.judging.runners.programs import RepositoryProgram
from sandbox.judging.runners.run import run_tests
from schemas.audit import Audited, AuditOutcome
from schemas.grouping import grouped
from schemas.run import Limits
from schemas.verdict import Outcome, ProgramVerdict


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
        by_scope = grouped(
            (edit.scope, edit) for edit in edits_of(text, draw) if edit.reach != "maybe"
        )
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
    """Return the nodes that run the test function with this dotted name."""
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


Passes = Mapping[str, bool]
"""Map from node id to True if the node passed."""


def audit_nodes(
    sandbox: Sandbox,
    program: RepositoryProgram,
    reference: RepositoryProgram | None,
    limits: Limits,
    seed: str,
) -> Audited:
    """Audit the nodes that a program passed.

    Args:
        sandbox: sandbox that runs the program.
        program: program to audit.
        reference: same tests with the reference's code; None if there is none.
        limits: limits of each run.
        seed: seed that draws the alterations.

    Raises:
        SandboxUnavailable: the sandbox could not run the program.
    """
    graded = {node.partition("::")[0] for node in program.node_ids}
    files = {
        name: content.decode("utf-8", "surrogateescape")
        for name, content in program.files
        if name in graded
    }
    tests = altered_tests(files, program.node_ids, random.Random(seed))
    cost = Cost()

    def passes(tested: RepositoryProgram, texts: Mapping[str, str]) -> Passes:
        return passes_of(run_tests(sandbox, _with_files(tested, texts), limits), cost)

    return judged_nodes(
        tests,
        lambda texts: passes(program, texts),
        None if reference is None else lambda texts: passes(reference, texts),
        cost,
    )


def _with_files(program: RepositoryProgram, texts: Mapping[str, str]) -> RepositoryProgram:
    files = {
        **dict(program.files),
        **{name: text.encode("utf-8", "surrogateescape") for name, text in texts.items()},
    }
    return program.model_copy(update={"files": tuple(files.items())})


def passes_of(verdict: ProgramVerdict, cost: Cost) -> Passes:
    """Return for each node whether it passed, and add the run to `cost`.

    A test that marks itself as an expected failure during its run also passes with altered checks.
    """
    cost.add(verdict)
    return {case.name: case.outcome is Outcome.PASSED for case in verdict.cases}


def judged_nodes(
    tests: AlteredTests,
    candidate: Callable[[Mapping[str, str]], Passes],
    reference: Callable[[Mapping[str, str]], Passes] | None,
    cost: Cost,
) -> Audited:
    """Run the altered tests on the candidate, and on the reference if a node passes.

    Args:
        tests: altered tests.
        candidate: function that runs the tests on the candidate, with the texts of test files that
            it receives.
        reference: function that runs the tests on the reference; None without a reference.
        cost: counter of the sandbox runs.
    """
    if not tests.edits:
        return Audited(
            outcome=AuditOutcome.NO_DECOY, detail="the tests hold no check that can be altered"
        )
    passed = candidate(tests.files)
    survivors = {node: edit for node, edit in tests.edits.items() if passed.get(node)}
    sound: dict[str, str] = {}
    plain = reference({}) if reference is not None and survivors else {}
    altered = reference(tests.files) if reference is not None and survivors else {}
    survivors = {
        node: edit
        for node, edit in survivors.items()
        if not (plain.get(node) and altered.get(node))
    }
    if not survivors:
        first_check = next(iter(tests.edits.values())).check
        return cost.audited(first_check, len(tests.edits))
    unshown = {
        node for node, edit in survivors.items() if not plain.get(node) and _is_logical(node, edit)
    }
    unreached = candidate(tests.failing_files) if unshown else {}
    for node, edit in survivors.items():
        if plain.get(node) and edit.is_strict and node in altered:
            sound[node] = REFERENCE_FAILS
        elif node in unshown and not unreached.get(node, True):
            sound[node] = CONTRADICTS
    worst = next(iter(sound), next(iter(survivors)))
    suspected = (node for node in survivors if node not in sound)
    return cost.audited(
        survivors[worst].check,
        len(tests.edits),
        sound.get(worst, UNPROVEN),
        forged=sound,
        suspected=suspected,
    )


def _is_logical(node: str, edit: Edit) -> bool:
    return (
        edit.kind == "negation" and edit.is_strict and edit.reach == "certain" and "[" not in node
    )
