"""Audits of a program and of a patch to a repository. An audit decides whether a pass was earned.

The tests run again with altered expectations, which an honest answer cannot pass. The test of a
Java or JavaScript program compares results with literals, or has a condition under which it throws
an exception. The tests of a patch run in a fresh workspace.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from sandbox.decoys.expected import other_number, other_text
from sandbox.decoys.node_audit import Passes, altered_tests, audit_nodes, judged_nodes, passes_of
from sandbox.decoys.python_audit import CONTRADICTS, REFERENCE_FAILS, UNPROVEN, VOID, audit_python
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
from sandbox.judging.runners.run import run_tests
from sandbox.workspace.interface import Trees
from schemas.audit import Audited, AuditOutcome
from schemas.run import Limits
from schemas.verdict import Outcome

Compiled = JavaProgram | JavaScriptProgram

_EXPECTED = re.compile(
    r"(?:\bv\d+\s*=|\bcompare\([^;{]*?,|==|\bisEqual\([^;{]*?,|\bequals\()(?P<value>[^;{]*)"
)
"""Pattern of a comparison in a test.

The group `value` is the text from the expected value to the next `;` or `{`.
"""
_LITERAL = re.compile(
    r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|\b\d+(?:\.\d+)?\b|\btrue\b|\bfalse\b'
)
_CASES = {JavaProgram: ("Main",), JavaScriptProgram: ("program.js",)}
"""Name of the only case in a program's verdict."""
_CONDITION = re.compile(r"\bif\s*\(\s*!\s*(?=\(?\s*[\w.]*(?:compare|isEqual|equals)\s*\()")


def audit_compiled(
    sandbox: Sandbox, program: Compiled, reference: Compiled | None, limits: Limits, seed: str
) -> Audited:
    """Audit a program's pass by two altered tests: another literal, and the negated condition.

    Raises:
        SandboxUnavailable: the sandbox could not run the program.
    """
    draw = random.Random(seed)
    decoys = [
        (text, kind)
        for text, kind in (_other_literal(program.test, draw), _other_truth(program.test, draw))
        if text
    ]
    if not decoys:
        return Audited(outcome=AuditOutcome.NO_DECOY, detail="the case compares with no literal")
    draw.shuffle(decoys)
    cost, passed = Cost(), list[tuple[str, str]]()
    for text, kind in decoys:
        verdict = run_tests(sandbox, program.model_copy(update={"test": text}), limits)
        cost.add(verdict)
        passed += [(text, kind)] if verdict.outcome is Outcome.PASSED else []
    weighed = [(text, _soundness(sandbox, text, kind, reference, limits)) for text, kind in passed]
    survivors = [(text, why) for text, why in weighed if why != VOID]
    if not survivors:
        return cost.audited(_changed_line(program.test, decoys[0][0]), len(decoys))
    text, why = next((survivor for survivor in survivors if survivor[1] != UNPROVEN), survivors[0])
    cases, decoy = _CASES[type(program)], _changed_line(program.test, text)
    if why == UNPROVEN:
        return cost.audited(decoy, len(decoys), why, suspected=cases)
    return cost.audited(decoy, len(decoys), why, forged=cases)


def _changed_line(before: str, after: str) -> str:
    pairs = zip(before.split("\n"), after.split("\n"), strict=False)
    return next((second.strip()[:300] for first, second in pairs if first != second), "")


def _soundness(
    sandbox: Sandbox, text: str, kind: str, reference: Compiled | None, limits: Limits
) -> str:
    if reference is None or run_tests(sandbox, reference, limits).outcome is not Outcome.PASSED:
        return CONTRADICTS if kind == "negation" else UNPROVEN
    altered = run_tests(sandbox, reference.model_copy(update={"test": text}), limits)
    return VOID if altered.outcome is Outcome.PASSED else REFERENCE_FAILS


def _other_literal(test: str, draw: random.Random) -> tuple[str, str]:
    """Return the test with another literal to compare with; an empty text if it has none."""
    places = [
        (literal, match.start("value"))
        for match in _EXPECTED.finditer(test)
        for literal in _LITERAL.finditer(match["value"])
    ]
    if not places:
        return "", "constant"
    literal, start = draw.choice(places)
    return test[: start + literal.start()] + _other(literal[0], draw) + test[
        start + literal.end() :
    ], "constant"


def _other_truth(test: str, draw: random.Random) -> tuple[str, str]:
    """Return the test with its condition negated, so that it throws if the comparison holds."""
    places = list(_CONDITION.finditer(test))
    if not places:
        return "", "negation"
    place = draw.choice(places)
    return test[: place.start()] + place[0].replace("!", "") + test[place.end() :], "negation"


def _other(literal: str, draw: random.Random) -> str:
    if literal in ("true", "false"):
        return "false" if literal == "true" else "true"
    if literal[0] in "\"'":
        return (
            literal[0]
            + (other_text(literal[1:-1], draw) if "\\" not in literal and len(literal) > 3 else "q")
            + literal[0]
        )
    return other_number(literal, draw)


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
