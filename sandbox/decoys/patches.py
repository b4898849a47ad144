"""Audit of a patch to a repository.

The tests of the fix run again with altered checks, in a fresh workspace.
"""

import random
from collections.abc import Mapping
from dataclasses import replace

from sandbox.decoys.node_audit import Passes, judged_nodes, passes_of
from sandbox.decoys.node_decoys import altered_tests
from sandbox.decoys.trial import Cost
from sandbox.judging.patched_repository import OpenPlace, PatchProgram, run_patch
from sandbox.judging.project_runners import nodes_of
from sandbox.workspace.interface import Trees
from schemas.audit import Audited
from schemas.run import Limits


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
