"""Build `talk2code-dialogues` (Data Construction): a dialogue for each task and persona."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schemas.dialog import ExpertiseLevel, Persona
from schemas.problem import Problem, QuarantinedRow
from schemas.run import Sampling
from tasks.benchmarks.advanced import (
    Cell,
    Constructed,
    Construction,
    ConstructionRequest,
    Review,
    Role,
    json_file,
    jsonl_file,
)
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.setting import Options
from tasks.benchmarks.talk2code.construction.dialogue_rules import Rounds
from tasks.benchmarks.talk2code.construction.writing import (
    PROMPTS,
    Task,
    WritingFailure,
    find_reference,
    write_rounds,
)
from tasks.benchmarks.talk2code.languages import LANGUAGES
from tasks.benchmarks.talk2code.stage import (
    ENTRY_POINT,
    LANGUAGE,
    PYTHON_REFERENCE,
    SOURCE,
    persona_of,
)
from tasks.benchmarks.talk2code.user.persona_user import (
    bundled_personas,
    guideline_text,
    persona_file,
)
from tasks.judging.rubric import RatingScale

DIALOGUES, REJECTED = "dialogues.jsonl", "rejected.json"
"""Files of the build. The name of the second does not end in `.jsonl`, since it is not data."""
RUBRIC = "talk2code.review"
CRITERIA = ("persona", "disclosure", "coherence", "accept")
"""Criteria for experts: three ratings from 1 to 5, and acceptance of the dialogue (yes or no)."""
SCALES = dict.fromkeys(CRITERIA[:3], RatingScale((1, 5))) | {
    CRITERIA[3]: RatingScale(words=("yes", "no"))
}
_SHOWN = ("task", "language", "persona", "level", "traits", "problem", "dialogue")


@dataclass(frozen=True)
class _TaskResult:
    """Dialogues written for one task, and the rejected ones."""

    task: Task
    dialogues: tuple[tuple[Persona, Rounds], ...] = ()
    rejected: tuple[Mapping[str, str | int], ...] = ()
    reference: str = field(default="", kw_only=True)


def estimate(*, staged: Staged, options: Options) -> Mapping[str, int]:
    """Return the number of model calls: one for each dialogue and each missing reference.

    Repairs (at most two for each) are not included.
    """
    tasks, personas = _tasks(staged), _personas(staged)
    return {
        "model": len(tasks) * len(personas)
        + sum(bool(not task.reference and task.python_reference) for task in tasks)
    }


async def construct(request: ConstructionRequest) -> Constructed:
    """Return the build's files: dialogues in the native format, rejections, a sheet for experts."""
    personas = _personas(request.staged)
    results = await asyncio.gather(
        *(_build_task(request, task, personas) for task in _tasks(request.staged))
    )
    own_personas = [
        persona for name, persona in personas.items() if bundled_personas().get(name) != persona
    ]
    quarantined = [_quarantine_row(row) for row in request.staged.quarantined]
    files = {
        DIALOGUES: jsonl_file(_row(result) for result in results if result.dialogues),
        REJECTED: json_file(
            [*quarantined, *(row for result in results for row in result.rejected)]
        ),
        **dict(persona_file(persona) for persona in own_personas),
    }
    rows = (
        _review_row(result, persona, rounds)
        for result in results
        for persona, rounds in result.dialogues
    )
    return Constructed(files, Review.rated(RUBRIC, SCALES, _SHOWN, rows))


def _tasks(staged: Staged) -> tuple[Task, ...]:
    """Return the tasks in the order of their problems, with and without existing dialogues."""
    labels: dict[str, Mapping[str, str]] = {}
    for dialog in staged.dialogs:
        labels.setdefault(dialog.problem_id, dict(dialog.labels))
    return tuple(
        _task(problem, labels[problem.problem_id])
        for problem in staged.problems
        if problem.problem_id in labels
    )


def _task(problem: Problem, labels: Mapping[str, str]) -> Task:
    return Task(
        task_id=problem.problem_id,
        language=LANGUAGES[labels[LANGUAGE]],
        source=labels[SOURCE],
        problem=problem.prompt,
        entry_point=labels[ENTRY_POINT],
        tests=problem.instructions[0].suite.tests,
        reference=problem.reference_code,
        python_reference=labels.get(PYTHON_REFERENCE, ""),
    )


def _personas(staged: Staged) -> Mapping[str, Persona]:
    """Return the bundled personas and those of the data, sorted by level and name."""
    personas = {
        **bundled_personas(),
        **{(persona := persona_of(dialog)).persona_id: persona for dialog in staged.dialogs},
    }
    order = list(ExpertiseLevel)
    return dict(sorted(personas.items(), key=lambda item: (order.index(item[1].level), item[0])))


async def _build_task(
    request: ConstructionRequest, task: Task, personas: Mapping[str, Persona]
) -> _TaskResult:
    reference = await find_reference(request, task)
    if isinstance(reference, WritingFailure):
        return _TaskResult(task, rejected=(_rejection_row(task, "", reference),))
    rounds_or_failures = await asyncio.gather(
        *(write_rounds(request, task, reference, persona) for persona in personas.values())
    )
    pairs = list(zip(personas.values(), rounds_or_failures, strict=True))
    return _TaskResult(
        task,
        tuple((persona, rounds) for persona, rounds in pairs if isinstance(rounds, Rounds)),
        tuple(
            _rejection_row(task, persona.persona_id, fault)
            for persona, fault in pairs
            if isinstance(fault, WritingFailure)
        ),
        reference=reference,
    )


def _rejection_row(task: Task, persona: str, fault: WritingFailure) -> Mapping[str, str | int]:
    """Return a rejection's row; an empty persona rejects the complete task."""
    return {
        "task_id": task.task_id,
        "language": task.language.name,
        "persona": persona,
        "reason": fault.reason,
        "detail": fault.detail,
        "n_answers": fault.n_answers,
    }


def _quarantine_row(row: QuarantinedRow) -> Mapping[str, str | int]:
    """Return the rejection of a quarantined row, identified by file and line."""
    return {
        "task_id": f"{row.source_file}:{row.source_line}",
        "language": "",
        "persona": "",
        "reason": row.reason,
        "detail": row.detail,
        "n_answers": 0,
    }


def _row(result: _TaskResult) -> Mapping[str, object]:
    """Return the task in the native format (see README.md)."""
    task = result.task
    return {
        "task_id": task.task_id,
        "language": task.language.name,
        "source": task.source,
        "problem": task.problem,
        "entry_point": task.entry_point,
        "reference": result.reference,
        "tests": list(task.tests),
        "dialogues": [
            {"persona": persona.persona_id, "turns": _turns(result, rounds)}
            for persona, rounds in result.dialogues
        ],
    }


def _turns(result: _TaskResult, rounds: Rounds) -> Sequence[Mapping[str, str]]:
    """Return the rounds; the program follows the last reply."""
    code = f"```{result.task.language.name}\n{result.reference.rstrip()}\n```"
    replies = (*rounds.replies[:-1], f"{rounds.replies[-1]}\n\n{code}")
    return [
        {"user": user, "assistant": reply}
        for user, reply in zip(rounds.users, replies, strict=True)
    ]


def _review_row(
    result: _TaskResult, persona: Persona, rounds: Rounds
) -> tuple[object, Sequence[Cell]]:
    turns = _turns(result, rounds)
    transcript = "\n\n".join(
        f"USER: {turn['user']}\n\nASSISTANT: {turn['assistant']}" for turn in turns
    )
    task, level = result.task, persona.level.value
    traits = "\n".join(f"{name}: {text}" for name, text in persona.traits)
    shown = (
        task.task_id,
        task.language.name,
        persona.persona_id,
        level,
        traits,
        task.problem,
        transcript,
    )
    return [task.task_id, persona, turns], shown


CONSTRUCTION = Construction(
    help="dialogues with each persona, by incremental disclosure, from HumanEval, ColBench's "
    "backend tasks or native rows",
    roles={
        "model": Role(
            "writes dialogues, and references in Java and JavaScript",
            Sampling(temperature=0.7, max_tokens=3000),
        )
    },
    construct=construct,
    estimate=estimate,
    prompts={**PROMPTS, "guidelines": guideline_text()},
    runs_programs=True,
    dataset_version="tasks",
)
