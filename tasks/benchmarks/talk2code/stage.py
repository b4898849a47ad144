"""Tasks of the native format as problems, with their personas' dialogues. Other rows are quarantined with their reason."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.errors import SourceUnreadable
from schemas.persona import ExpertiseLevel, Persona
from schemas.problem import BASE_INSTRUCTION, Instruction, Problem, TestSuite
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_lines import (
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
"""Before the name of a trait among a dialog's labels."""


def stage(source: Path, dataset_version: str) -> Staged:
    """Stage a file of tasks, or all of a folder. HumanEval's are in the order of their numbers, all languages of one together.

    An input row is a line that is not blank, or a fault that ends a file; each is staged or quarantined.

    Raises:
        SourceUnreadable: no such file, none with a row that can be read, or a persona that is none.
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
        staged, problems=sorted(staged.problems, key=lambda problem: _place(problem.problem_id))
    )


def _place(task_id: str) -> int:
    return -1 if (number := number_of(task_id)) is None else number


def has_dialogue(setting: str, dialog: Dialog) -> bool:
    """Whether a dialog can be played: it is one, and no task that waits for its dialogues. See `Plays`."""
    return dialog.turns[-1].role is Role.ASSISTANT


def _task_files(source: Path) -> tuple[Path, ...]:
    """The files of a folder, and HumanEval's one level below. Of two that differ in packing alone the first is read."""
    if source.is_file():
        return (source,)
    there = (
        [*sorted(source.glob("*")), *sorted(source.glob("*/HumanEval*"))] if source.is_dir() else []
    )
    found: dict[str, Path] = {}
    for path in there:
        if path.name.endswith(SUFFIXES):
            found.setdefault(path.name.removesuffix(".gz"), path)
    if not found:
        raise SourceUnreadable(
            f"{source} holds no {' or '.join(SUFFIXES)} file: give one in the native format, or its folder"
        )
    return tuple(found.values())


def _python_references(files: Iterable[Path]) -> dict[int, str]:
    """HumanEval's number -> reference in Python: what Java and JavaScript references are written from."""
    found: dict[int, str] = {}
    for path in files:
        for item in read_lines(path) if path.name.startswith("HumanEval") else ():
            with suppress(BadRow):
                known = (
                    python_reference_of(parse_object(item.content))
                    if isinstance(item, Line)
                    else None
                )
                if known is not None:
                    found.setdefault(*known)
    return found


class _Rows:
    """Makes problems and dialogs of rows."""

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
        """Make a task's problem and dialogs. Raises BadRow where it cannot be staged."""
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
            known = ", ".join(sorted(self._personas))
            raise BadRow(
                "unknown_persona",
                f"{dialogue.persona!r} is no persona ({known}): add its file to `personas`",
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
    """The golden dialogue. Entities that a person noted are in no id: they change nothing that is said."""
    said = [[turn.user, turn.assistant] for turn in dialogue.turns]
    noted = _noted(REFERENCE_ENTITIES, task.reference_entities)
    return _with_persona(task, problem, persona, _turns(dialogue), said, noted)


def _open_dialog(task: Seed, problem: Problem, persona: Persona) -> Dialog:
    """A task that waits for its dialogue with a persona."""
    turn = Turn(turn=1, role=Role.USER, content=task.problem, instruction_id=BASE_INSTRUCTION)
    given = ((PYTHON_REFERENCE, task.python_reference),) if task.python_reference else ()
    return _with_persona(task, problem, persona, (turn,), ["open", task.python_reference], given)


def _with_persona(
    task: TaskText,
    problem: Problem,
    persona: Persona,
    turns: tuple[Turn, ...],
    said: object,
    labels: tuple[tuple[str, str], ...],
) -> Dialog:
    known = (
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
        labels=(*known, *labels),
        row_digest=content_id([problem.row_digest, persona, said]),
        problem_digest=problem.row_digest,
    )


def persona_of(dialog: Dialog) -> Persona:
    """The persona that a dialog's labels tell."""
    labels = dict(dialog.labels)
    traits = tuple(
        (name.removeprefix(TRAIT), text) for name, text in dialog.labels if name.startswith(TRAIT)
    )
    return Persona(persona_id=labels[ARCHETYPE], level=ExpertiseLevel(labels[LEVEL]), traits=traits)


def _turns(dialogue: RawDialogue) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for number, said in enumerate(dialogue.turns, 1):
        turns.append(
            Turn(turn=number, role=Role.USER, content=said.user, instruction_id=BASE_INSTRUCTION)
        )
        is_last, labels = number == len(dialogue.turns), _noted(ENTITIES, said.entities)
        turns.append(
            Turn(
                turn=number,
                role=Role.ASSISTANT,
                content=said.assistant,
                do_eval=is_last,
                labels=labels,
            )
        )
    return tuple(turns)


def _noted(name: str, entities: list[str] | None) -> tuple[tuple[str, str], ...]:
    return (
        ()
        if entities is None
        else ((name, json.dumps(sorted({entity.strip().lower() for entity in entities}))),)
    )
