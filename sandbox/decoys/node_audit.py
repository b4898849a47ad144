"""Audit of pytest nodes in a working folder.

The graded test files run again with altered checks, in a fresh copy of the folder.
"""

import random
from collections.abc import Callable, Mapping

from sandbox.decoys.edits import Edit
from sandbox.decoys.node_decoys import AlteredTests, altered_tests
from sandbox.decoys.python_audit import CONTRADICTS, REFERENCE_FAILS, UNPROVEN
from sandbox.decoys.trial import Cost
from sandbox.interface import Sandbox
from sandbox.judging.runners.programs import RepositoryProgram
from sandbox.judging.runners.run import run_tests
from schemas.audit import Audited, AuditOutcome
from schemas.run import Limits
from schemas.verdict import Outcome, ProgramVerdict

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
        return cost.of(
            Audited(outcome=AuditOutcome.EARNED, decoy=first_check, n_decoys=len(tests.edits))
        )
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
    audited = Audited(
        outcome=AuditOutcome.FORGED if sound else AuditOutcome.SUSPECTED,
        decoy=survivors[worst].check,
        is_sound=bool(sound),
        detail=sound.get(worst, UNPROVEN),
        forged_cases=tuple(sound),
        suspected_cases=tuple(node for node in survivors if node not in sound),
        n_decoys=len(tests.edits),
    )
    return cost.of(audited)


def _is_logical(node: str, edit: Edit) -> bool:
    return (
        edit.kind == "negation" and edit.is_strict and edit.reach == "certain" and "[" not in node
    )
