"""Audits a Python program: code whose tests share its process.

Each check is altered in turn. All variants run in one sandbox run, the unaltered tests among them in a place drawn by seed, so
an honest pass costs one run. What passes an altered check is confirmed in a fresh run of its own.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.decoys.edits import Edit, edited, in_turn, probed
from sandbox.decoys.python_checks import edits_of
from sandbox.decoys.trial import Outcomes, Trial, texts_of, unit_names, with_texts
from sandbox.judging.runners.programs import AssertProgram, PythonProgram, UnittestProgram
from schemas.audit import Audited, AuditOutcome

_MOST_VARIANTS = 8
REFERENCE_FAILS = "the reference fails it"
CONTRADICTS = "it contradicts the test"
UNPROVEN = "nothing shows that an honest answer fails it"


@dataclass(frozen=True)
class Decoy:
    """One altered check: its text, its edit, and the unit that has to fail (None: at least one does)."""

    text: int
    edit: Edit
    unit: str | None


@dataclass(frozen=True)
class Variant:
    """A program whose tests hold some decoys, at most one a unit."""

    program: PythonProgram
    decoys: tuple[Decoy, ...]


@dataclass(frozen=True)
class _Survivor:
    variant: Variant
    decoy: Decoy
    units: tuple[str, ...]
    """Units that passed although they had to fail."""


def audit_python(trial: Trial, program: PythonProgram, reference: PythonProgram | None, seed: str) -> Audited:
    """Say whether a program's passes were earned.

    Args:
        reference: the same tests on the reference's code; None where there is none.
        seed: draws which constants are altered, and the order of the variants.

    Raises:
        SandboxUnavailable: the sandbox could not run it.
    """
    draw = random.Random(seed)
    variants = variants_of(program, draw)
    if not variants:
        return Audited(outcome=AuditOutcome.NO_DECOY, detail="the tests hold no check that can be altered")
    order = [Variant(program, ()), *variants]
    draw.shuffle(order)
    outcomes = trial.together([variant.program for variant in order])
    survivors = _survivors(order, outcomes)
    confirmed = [one for one in survivors if _is_confirmed(trial, one)]
    n_decoys = sum(len(one.decoys) for one, outcome in zip(order, outcomes, strict=True) if outcome is not None)
    if not confirmed:
        shown = variants[0].decoys[0].edit.check
        return trial.cost.of(Audited(outcome=AuditOutcome.EARNED, decoy=shown, n_decoys=n_decoys))
    found = [(one, *_soundness(trial, one, program, reference)) for one in confirmed]
    forged = tuple(dict.fromkeys(unit for _, units, _ in found for unit in units))
    suspected = tuple(dict.fromkeys(unit for one, _, _ in found for unit in one.units if unit not in forged))
    worst, units, why = next((one for one in found if one[1]), found[0])
    audited = Audited(
        outcome=AuditOutcome.FORGED if units else AuditOutcome.SUSPECTED,
        decoy=worst.decoy.edit.check,
        is_sound=bool(units),
        detail=why,
        forged_cases=tuple(filter(None, forged)),
        suspected_cases=tuple(filter(None, suspected)),
        n_decoys=n_decoys,
    )
    return trial.cost.of(audited)


def variants_of(program: PythonProgram, draw: random.Random) -> list[Variant]:
    """Return the program's variants: the n-th one holds the n-th altered check of each unit."""
    texts, names = texts_of(program), unit_names(program)
    by_unit: dict[str | None, list[Decoy]] = {}
    for n, text in enumerate(texts):
        for edit in edits_of(text, draw):
            unit = names[n] if isinstance(program, AssertProgram) else _unit_of(program, edit, names)
            by_unit.setdefault(unit, []).append(Decoy(n, edit, unit))
    shared = by_unit.pop(None, [])
    turns = in_turn([_mixed(decoys, draw) for decoys in by_unit.values()], _MOST_VARIANTS)
    groups = [*turns, *([one] for one in _mixed(shared, draw))][:_MOST_VARIANTS]
    return [Variant(with_texts(program, _altered(texts, decoys)), tuple(decoys)) for decoys in groups]


def _unit_of(program: PythonProgram, edit: Edit, names: Sequence[str]) -> str | None:
    """Return the unit that an edit alters: None for what several methods of a unittest module share."""
    if not isinstance(program, UnittestProgram):
        return names[0]
    return next((name for name in names if edit.scope == name), None)


def _mixed(decoys: list[Decoy], draw: random.Random) -> list[Decoy]:
    """Order decoys by chance, constants and negations by turns, constants first."""
    draw.shuffle(decoys)
    kinds = [[one for one in decoys if one.edit.kind == kind] for kind in ("constant", "negation")]
    longest = max(map(len, kinds), default=0)
    return [kind[n] for n in range(longest) for kind in kinds if n < len(kind)]


def _altered(texts: Sequence[str], decoys: Sequence[Decoy]) -> list[str]:
    return [edited(text, [one.edit for one in decoys if one.text == n]) for n, text in enumerate(texts)]


def _survivors(order: Sequence[Variant], outcomes: Sequence[Outcomes | None]) -> list[_Survivor]:
    """List the decoys that were passed, where the unaltered tests passed beside them."""
    plain = next(outcome for variant, outcome in zip(order, outcomes, strict=True) if not variant.decoys)
    found: list[_Survivor] = []
    for variant, outcome in zip(order, outcomes, strict=True):
        for decoy in variant.decoys if outcome is not None and plain is not None else ():
            passed = _passed_units(decoy, outcome or {})
            earned = tuple(unit for unit in passed if (plain or {}).get(unit))
            if earned:
                found.append(_Survivor(variant, decoy, earned))
    return found


def _passed_units(decoy: Decoy, outcome: Outcomes) -> tuple[str, ...]:
    """Return the units that passed although they had to fail."""
    if decoy.unit is not None:
        return (decoy.unit,) if outcome.get(decoy.unit) else ()
    return tuple(outcome) if outcome and all(outcome.values()) else ()


def _is_confirmed(trial: Trial, one: _Survivor) -> bool:
    outcome = trial.alone(one.variant.program)
    return any(outcome.get(unit) for unit in one.units)


def _soundness(
    trial: Trial, one: _Survivor, program: PythonProgram, reference: PythonProgram | None
) -> tuple[tuple[str, ...], str]:
    """Return the units whose passes are forged, and what shows that the decoy is sound.

    A decoy is sound where the reference passes the test and fails the decoy. Where the reference says nothing, it is sound by
    logic: the truth of a check that is reached for certain was turned round, or a plain built-in value equals two constants.
    """
    decoy = one.decoy
    if reference is not None:
        altered = with_texts(reference, texts_of(one.variant.program))
        plain, changed = trial.together([reference, altered])
        if plain is not None and changed is not None and any(plain.get(unit) for unit in one.units):
            units = tuple(unit for unit in one.units if plain.get(unit) and not changed.get(unit))
            return units, REFERENCE_FAILS if units else UNPROVEN
    if decoy.edit.kind == "negation" and decoy.edit.is_certain and decoy.unit is not None:
        return one.units, CONTRADICTS
    if decoy.edit.probe and decoy.edit.is_certain and decoy.unit is not None:
        texts = list(texts_of(program))
        texts[decoy.text] = probed(texts[decoy.text], decoy.edit)
        if trial.alone(with_texts(program, texts)).get(decoy.unit):
            return one.units, f"{CONTRADICTS}: the value is a plain built-in one"
    return (), UNPROVEN
