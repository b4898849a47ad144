"""Audit of a Java or JavaScript program.

The test compares results with literals, or has a condition under which it throws an exception.
"""

import random
import re

from sandbox.decoys.expected import other_number, other_text
from sandbox.decoys.python_audit import CONTRADICTS, REFERENCE_FAILS, UNPROVEN, VOID
from sandbox.decoys.trial import Cost
from sandbox.interface import Sandbox
from sandbox.judging.runners.programs import JavaProgram, JavaScriptProgram
from sandbox.judging.runners.run import run_tests
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
