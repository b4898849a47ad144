"""Audits of a program and of a patch to a repository. An audit decides whether a pass was earned.

The tests run again with altered expectations, which an honest answer cannot pass. The tests of a
patch run in a fresh workspace.
"""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from sandbox.decoys.compiled_audit import audit_compiled
from sandbox.decoys.node_audit import Passes, altered_tests, audit_nodes, judged_nodes, passes_of
from sandbox.decoys.python_audit import audit_python
from sandbox.decoys.trial import Cost, Trial
from sandbox.interface import Sandbox
from sandbox.judging.patched_repository import OpenPlace, PatchProgram, run_patch
from sandbox.judging.project_runners import nodes_of
from sandbox.judging.runners.programs import (
    JavaProgram,
    JavaScriptProgram,
    RepositoryProgram,
    TestProgram,
)
from sandbox.workspace.interface import Trees
from schemas.audit import Audited
from schemas.run import Limits

P = TypeVar("P")


def audit_program(
    sandbox: Sandbox,
    program: TestProgram,
    reference: TestProgram | None,
    limits: Limits,
    seed: str,
    *,
    asks_other_inputs: bool = False,
) -> Audited:
    """Audit one program that has passed all or some of its tests.

    Args:
        sandbox: sandbox that runs the program.
        program: program to audit.
        reference: same tests with the reference's code; None if there is none.
        limits: limits of each run.
        seed: seed that draws the alterations and the order of the runs.
        asks_other_inputs: if True, also test with other inputs, whose values come from the
            reference. This takes two more runs for each pass.

    Raises:
        SandboxUnavailable: the sandbox could not run the program. This says nothing about the
            answer.
    """
    match program:
        case RepositoryProgram():
            return audit_nodes(sandbox, program, _of_kind(program, reference), limits, seed)
        case JavaProgram() | JavaScriptProgram():
            return audit_compiled(sandbox, program, _of_kind(program, reference), limits, seed)
        case _:
            return audit_python(
                Trial(sandbox, limits),
                program,
                _of_kind(program, reference),
                seed,
                asks_other_inputs=asks_other_inputs,
            )


def _of_kind(program: P, reference: TestProgram | None) -> P | None:
    return reference if isinstance(reference, type(program)) else None


def audit_patch(
    open_place: OpenPlace,
    trees: Trees,
    program: PatchProgram,
    gold: str | None,
    limits: Limits,
    seed: str,
) -> Audited:
    """Audit the tests that a patch passed.

    Args:
        open_place: function that opens a fresh workspace.
        trees: store of the repositories' trees.
        program: patch and repository.
        gold: the project's own fix, which shows whether an altered check is sound; None without
            one.
        limits: limits of each run.
        seed: seed that draws the alterations.

    Raises:
        SandboxUnavailable: the sandbox could not apply the patch or run the tests.
        Unscorable: the tests cannot run here.
    """
    repository = program.repository
    stored = trees.files(repository.tested_tree, repository.test_files).items()
    files = {
        name: trees.get(entry.what).decode("utf-8", "surrogateescape")
        for name, entry in stored
        if not entry.is_link
    }
    nodes = nodes_of(repository.runner, program.wanted, tuple(files))
    altered = altered_tests(files, tuple(nodes), random.Random(seed))
    tests = replace(altered, edits={nodes[node]: edit for node, edit in altered.edits.items()})
    cost = Cost()

    def passes(patch: str, texts: Mapping[str, str]) -> Passes:
        contents = {name: text.encode("utf-8", "surrogateescape") for name, text in texts.items()}
        return passes_of(
            run_patch(open_place, trees, replace(program, patch=patch), limits, contents), cost
        )

    return judged_nodes(
        tests,
        lambda texts: passes(program.patch, texts),
        None if gold is None else lambda texts: passes(gold, texts),
        cost,
    )
