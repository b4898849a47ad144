"""Staging of Talk2Code: problems of native rows, HumanEval and ColBench, with their dialogues."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from schemas.content_id import content_id
from schemas.dialog import Dialog, ExpertiseLevel, Persona, Role, Turn
from schemas.errors import SourceUnreadable
from schemas.problem import BASE_INSTRUCTION, Instruction, Problem, TestSuite
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_rows import (
    SUFFIXES,
    BadRow,
    Line,
    parse_object,
    read_lines,
    relative_name,
)
from tasks.benchmarks.staging import Staging
from tasks.benchmarks.talk2code.construction.humaneval import number_of
from tasks.benchmarks.talk2code.construction.seed import Seed, python_reference_of, seed_of
from tasks.benchmarks.talk2code.languages import LANGUAGES
from tasks.benchmarks.talk2code.raw_row import (
    RawDialogue,
    RawTask,
    TaskText,
    disclosure_fault,
    parse_row,
)
from tasks.benchmarks.talk2code.user.personas import personas_of

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

    HumanEval's tasks are sorted by number, so that all languages of a task are adjacent. An input
    row is a line that is not blank, or a fault that ends a file. Each is staged or quarantined.

    Raises:
        SourceUnreadable: the file does not exist, no row is readable, or a persona file is invalid.
    """
    files, personas = _task_files(source), personas_of(source)
    rows, staging = (
        _Rows(dataset_version, personas, _python_references(files)),
        Staging(BENCHMARK_NAME, dataset_version),
    )
    for path in files:
        file = relative_name(path, source)
        staging.add_lines(file, read_lines(path), lambda line, file=file: rows.make(line, file))
    staging.require_lines(source, len(files))
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
            "format, or"
            " its folder"
        )
    return tuple(by_name.values())


def _python_references(files: Iterable[Path]) -> dict[int, str]:
    """Return HumanEval's number -> Python reference, from which other references are written."""
    references: dict[int, str] = {}
    for path in files:
        for item in read_lines(path) if path.name.startswith("HumanEval") else ():
            with suppress(BadRow):
                reference = (
                    python_reference_of(parse_object(item.content))
                    if isinstance(item, Line)
                    else None
                )
                if reference is not None:
                    references.setdefault(*reference)
    return references


class _Rows:
    """Converter of rows to problems and dialogs."""

    def __init__(
        self,
        dataset_version: str,
        personas: Mapping[str, Persona],
        python_references: dict[int, str],
    ) -> None:
        self._version, self._personas, self._python_references = (
            dataset_version,
            personas,
            python_references,
        )

    def make(self, line: Line, file: str) -> tuple[Problem, list[Dialog]]:
        """Return the problem and dialogs of a row. Raises BadRow if it cannot be staged."""
        raw = parse_object(line.content)
        task = seed_of(raw, self._python_references) or parse_row(raw)
        problem = _problem(task, raw, self._version, file, line.number)
        if isinstance(task, RawTask):
            dialogs = [
                _dialog(task, dialogue, problem, self._persona(task, dialogue))
                for dialogue in task.dialogues
            ]
        else:
            dialogs = [_open_dialog(task, problem, persona) for persona in self._personas.values()]
        names = [dialog.dialog_id for dialog in dialogs]
        if len(set(names)) < len(names):
            raise BadRow("duplicate_dialogue", f"{task.task_id} has two dialogues with one persona")
        return problem, dialogs

    def _persona(self, task: RawTask, dialogue: RawDialogue) -> Persona:
        if dialogue.persona not in self._personas:
            names = ", ".join(sorted(self._personas))
            raise BadRow(
                "unknown_persona",
                f"{dialogue.persona!r} is no persona ({names}): add its file to `personas`",
            )
        if fault := disclosure_fault(task, dialogue):
            raise BadRow("misplaced_code", f"the dialogue with {dialogue.persona}: {fault}")
        return self._personas[dialogue.persona]


def _problem(task: TaskText, raw: Mapping[str, Any], version: str, file: str, line: int) -> Problem:
    suite = TestSuite(tests=tuple(task.tests), kind=LANGUAGES[task.language].kind)
    return Problem(
        benchmark=BENCHMARK_NAME,
        dataset_version=version,
        problem_id=task.task_id,
        level=task.source,
        prompt=task.problem,
        instructions=(
            Instruction(instruction_id=BASE_INSTRUCTION, text=task.problem, suite=suite),
        ),
        reference_code=task.reference,
        source_file=file,
        source_line=line,
        row_digest=_digest(
            {
                name: value
                for name, value in raw.items()
                if name not in ("dialogues", REFERENCE_ENTITIES)
            }
        ),
    )


def _digest(raw: object) -> str:
    try:
        return content_id(raw)
    except (ValueError, RecursionError) as fault:
        raise BadRow("wrong_type", str(fault)) from None


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
    return Dialog(
        benchmark=BENCHMARK_NAME,
        dataset_version=problem.dataset_version,
        dialog_id=f"{task.task_id}/{persona.level.value}/{persona.persona_id}",
        problem_id=problem.problem_id,
        turns=turns,
        labels=(*own_labels, *labels),
        row_digest=content_id([problem.row_digest, persona, messages]),
        problem_digest=problem.row_digest,
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
