"""Staging of Talk2Code: problems of native rows, HumanEval and ColBench, with their dialogues."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Dialog, ExpertiseLevel, Persona, Role, Turn
from schemas.errors import SourceUnreadable
from schemas.problem import BASE_INSTRUCTION, Problem, TestSuite
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_rows import SUFFIXES, BadRow, read_lines, validated
from tasks.benchmarks.staging import RawRow, Staging, dialog_of
from tasks.benchmarks.talk2code.construction.seed import (
    Seed,
    number_of,
    python_reference_of,
    seed_of,
)
from tasks.benchmarks.talk2code.languages import LANGUAGES
from tasks.benchmarks.talk2code.raw_row import (
    OWN_REASONS,
    RawDialogue,
    RawTask,
    TaskText,
    disclosure_fault,
)
from tasks.benchmarks.talk2code.user.persona_user import personas_of

BENCHMARK_NAME = "talk2code"
ENTRY_POINT, LANGUAGE, LEVEL, ARCHETYPE, SOURCE = (
    "entry_point",
    "language",
    "level",
    "archetype",
    "source",
)
ENTITIES, REFERENCE_ENTITIES = "entities", "reference_entities"
PYTHON_REFERENCE = "python_reference"
TRAIT = "persona."
"""Prefix of a trait's name in a dialog's labels."""


def stage(source: Path, dataset_version: str) -> Staged:
    """Stage a file of tasks, or all files of a folder.

    HumanEval's tasks are sorted by number, so that all languages of a task are adjacent.

    Raises:
        SourceUnreadable: the file does not exist, no row is readable, or a persona file is invalid.
    """
    files, staging = _task_files(source), Staging(BENCHMARK_NAME, dataset_version)
    make = partial(_make, personas=personas_of(source), python_references=_python_references(files))
    staging.add_source(source, lambda _: files, make)
    staged = staging.staged()
    return replace(
        staged, problems=sorted(staged.problems, key=lambda problem: _sort_key(problem.problem_id))
    )


def _sort_key(task_id: str) -> int:
    return -1 if (number := number_of(task_id)) is None else number


def has_dialogue(setting: str, dialog: Dialog) -> bool:
    """Return True if a dialog can be played: it is not a task without dialogue. See `Plays`."""
    return dialog.turns[-1].role is Role.ASSISTANT


def _task_files(source: Path) -> tuple[Path, ...]:
    """Return the files of a folder, and HumanEval's files one level below.

    If a file exists plain and compressed, the plain one is used.
    """
    if source.is_file():
        return (source,)
    paths = (
        [*sorted(source.glob("*")), *sorted(source.glob("*/HumanEval*"))] if source.is_dir() else []
    )
    by_name: dict[str, Path] = {}
    for path in paths:
        if path.name.endswith(SUFFIXES):
            by_name.setdefault(path.name.removesuffix(".gz"), path)
    if not by_name:
        raise SourceUnreadable(
            f"{source} contains no {' or '.join(SUFFIXES)} file. Pass a file in the native "
            "format, or its folder"
        )
    return tuple(by_name.values())


def _python_references(files: Iterable[Path]) -> dict[int, str]:
    """Return HumanEval's number -> Python reference, from which other references are written."""
    references: dict[int, str] = {}
    for path in files:
        for item in read_lines(path) if path.name.startswith("HumanEval") else ():
            with suppress(BadRow):
                if reference := python_reference_of(item.fields()):
                    references.setdefault(*reference)
    return references


def _make(
    row: RawRow, personas: Mapping[str, Persona], python_references: dict[int, str]
) -> tuple[Problem, list[Dialog]]:
    """Return the problem and dialogs of a row. Raises BadRow if it cannot be staged."""
    task = seed_of(row.fields, python_references) or validated(RawTask, row.fields, OWN_REASONS)
    problem = _problem(task, row)
    if isinstance(task, RawTask):
        dialogs = [
            _dialog(task, dialogue, problem, _persona(task, dialogue, personas))
            for dialogue in task.dialogues
        ]
    else:
        dialogs = [_open_dialog(task, problem, persona) for persona in personas.values()]
    names = [dialog.dialog_id for dialog in dialogs]
    if len(set(names)) < len(names):
        raise BadRow("duplicate_dialogue", f"{task.task_id} has two dialogues with one persona")
    return problem, dialogs


def _persona(task: RawTask, dialogue: RawDialogue, personas: Mapping[str, Persona]) -> Persona:
    if dialogue.persona not in personas:
        names = ", ".join(sorted(personas))
        raise BadRow(
            "unknown_persona",
            f"{dialogue.persona!r} is no persona ({names}): add its file to `personas`",
        )
    if fault := disclosure_fault(task, dialogue):
        raise BadRow("misplaced_code", f"the dialogue with {dialogue.persona}: {fault}")
    return personas[dialogue.persona]


def _problem(task: TaskText, row: RawRow) -> Problem:
    own = {
        name: value
        for name, value in row.fields.items()
        if name not in ("dialogues", REFERENCE_ENTITIES)
    }
    return row.problem(
        task.task_id,
        task.problem,
        TestSuite(tests=tuple(task.tests), kind=LANGUAGES[task.language].kind),
        task.reference,
        row.digest(own),
        level=task.source,
    )


def _dialog(task: RawTask, dialogue: RawDialogue, problem: Problem, persona: Persona) -> Dialog:
    """Return the golden dialogue. Noted entities are not part of ids: they change no message."""
    messages = [[turn.user, turn.assistant] for turn in dialogue.turns]
    entity_labels = _entity_labels(REFERENCE_ENTITIES, task.reference_entities)
    return _with_persona(task, problem, persona, _turns(dialogue), messages, entity_labels)


def _open_dialog(task: Seed, problem: Problem, persona: Persona) -> Dialog:
    """Return a placeholder for the dialogue to write for a task and a persona."""
    turn = Turn(turn=1, role=Role.USER, content=task.problem, instruction_id=BASE_INSTRUCTION)
    labels = ((PYTHON_REFERENCE, task.python_reference),) if task.python_reference else ()
    return _with_persona(task, problem, persona, (turn,), ["open", task.python_reference], labels)


def _with_persona(
    task: TaskText,
    problem: Problem,
    persona: Persona,
    turns: tuple[Turn, ...],
    messages: object,
    labels: tuple[tuple[str, str], ...],
) -> Dialog:
    own_labels = (
        (LEVEL, persona.level.value),
        (ARCHETYPE, persona.persona_id),
        (LANGUAGE, task.language),
        (SOURCE, task.source),
        (ENTRY_POINT, task.entry_point),
        *((f"{TRAIT}{name}", text) for name, text in persona.traits),
    )
    return dialog_of(
        problem,
        turns,
        (*own_labels, *labels),
        f"{task.task_id}/{persona.level.value}/{persona.persona_id}",
        content_id([problem.row_digest, persona, messages]),
    )


def persona_of(dialog: Dialog) -> Persona:
    """Return the persona in a dialog's labels."""
    labels = dict(dialog.labels)
    traits = tuple(
        (name.removeprefix(TRAIT), text) for name, text in dialog.labels if name.startswith(TRAIT)
    )
    return Persona(persona_id=labels[ARCHETYPE], level=ExpertiseLevel(labels[LEVEL]), traits=traits)


def _turns(dialogue: RawDialogue) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for number, round_ in enumerate(dialogue.turns, 1):
        turns.append(
            Turn(turn=number, role=Role.USER, content=round_.user, instruction_id=BASE_INSTRUCTION)
        )
        is_last, labels = number == len(dialogue.turns), _entity_labels(ENTITIES, round_.entities)
        turns.append(
            Turn(
                turn=number,
                role=Role.ASSISTANT,
                content=round_.assistant,
                do_eval=is_last,
                labels=labels,
            )
        )
    return tuple(turns)


def _entity_labels(name: str, entities: list[str] | None) -> tuple[tuple[str, str], ...]:
    return (
        ()
        if entities is None
        else ((name, json.dumps(sorted({entity.strip().lower() for entity in entities}))),)
    )
