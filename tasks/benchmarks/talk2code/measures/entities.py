"""Entities of replies and of the reference: K_A and K_true, as a judge lists them or as a person noted them."""

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
"""Stands for the reference among the rounds."""
Sets = Mapping[int, frozenset[str]]
"""Round -> entities of its reply; those of the reference under `REFERENCE`."""


class Entities(Frozen):
    """What a text names."""

    entities: tuple[Annotated[str, Field(max_length=40)], ...] = Field(max_length=20)


def entity_set(names: Sequence[str]) -> frozenset[str]:
    """Entities as they are compared: lower case, spaces made one."""
    return frozenset(" ".join(name.lower().split()) for name in names) - {""}


def reference_text(problem: Problem, options: Options) -> str:
    """What replies are compared with: the reference program, alone or after the task's statement."""
    program = problem.reference_code.strip("\n")
    return program if options[REFERENCE_TEXT] == "answer" else f"{problem.prompt}\n\n{program}"


def noted_entities(dialog: Dialog, options: Options) -> Sets | None:
    """What a person noted of a golden dialogue. None where that is not asked for, or where notes are missing on any reply."""
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
