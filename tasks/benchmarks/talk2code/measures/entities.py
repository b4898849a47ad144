"""Entities that texts name: things of the task, values, data types, rules, operations, errors.

A judge or a person lists the entities of each reply (K_A in the paper) and those of the reference
(K_true).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from schemas.base import Frozen
from schemas.dialog import Dialog, Role
from schemas.problem import Problem
from tasks.benchmarks.setting import Options
from tasks.benchmarks.talk2code.options import ENTITY_SOURCE, REFERENCE_TEXT
from tasks.benchmarks.talk2code.stage import ENTITIES, REFERENCE_ENTITIES

REFERENCE = 0
"""Round number that represents the reference."""
Sets = Mapping[int, frozenset[str]]
"""Round -> entities of its reply. The key `REFERENCE` has the reference's entities."""


class Entities(Frozen):
    """What a text names."""

    entities: tuple[Annotated[str, Field(max_length=40)], ...] = Field(max_length=20)


def entity_set(names: Sequence[str]) -> frozenset[str]:
    """Normalise entities for comparison: lower case, single spaces."""
    return frozenset(" ".join(name.lower().split()) for name in names) - {""}


def reference_text(problem: Problem, options: Options) -> str:
    """Return the text to compare replies with: the reference program, or statement and program."""
    program = problem.reference_code.strip("\n")
    return program if options[REFERENCE_TEXT] == "answer" else f"{problem.prompt}\n\n{program}"


def noted_entities(dialog: Dialog, options: Options) -> Sets | None:
    """Return the entities that a person noted in a golden dialogue.

    Returns None if the option `entities` selects the judge, or if a reply has no note.
    """
    if options.get(ENTITY_SOURCE) != "notes":
        return None
    notes = {
        turn.turn: dict(turn.labels).get(ENTITIES)
        for turn in dialog.turns
        if turn.role is Role.ASSISTANT
    }
    notes[REFERENCE] = dict(dialog.labels).get(REFERENCE_ENTITIES)
    if any(note is None for note in notes.values()):
        return None
    return {turn: frozenset(json.loads(note or "[]")) for turn, note in notes.items()}
