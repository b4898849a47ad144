"""`parley build talk2code-dialogues` (Data Construction): tasks become dialogues with each persona; the rest is listed."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schemas.content_id import content_id
from schemas.persona import ExpertiseLevel, Persona
from schemas.problem import Problem, QuarantinedRow
from schemas.run import Sampling
from tasks.benchmarks.construction import (
    Cell,
    Constructed,
    Construction,
    ConstructionRequest,
    Review,
    Role,
)
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.setting import Options
from tasks.benchmarks.talk2code.construction.dialogue_rules import Rounds
from tasks.benchmarks.talk2code.construction.writing import (
    PROMPTS,
    Task,
    Unwritten,
    find_reference,
    written_rounds,
)
from tasks.benchmarks.talk2code.languages import LANGUAGES
from tasks.benchmarks.talk2code.stage import (
    ENTRY_POINT,
    LANGUAGE,
    PYTHON_REFERENCE,
    SOURCE,
    persona_of,
)
from tasks.benchmarks.talk2code.user.guidelines import guideline_text
from tasks.benchmarks.talk2code.user.personas import bundled_personas, persona_file
from tasks.judging.rating_scales import RatingScale

DIALOGUES, REJECTED = "dialogues.jsonl", "rejected.json"
"""No name of the second file ends in `.jsonl`: it is no data."""
RUBRIC = "talk2code.review"
CRITERIA = ("persona", "disclosure", "coherence", "accept")
"""What experts rate: three from 1 to 5, and whether the dialogue is good enough to stay (yes or no)."""
SCALES = dict.fromkeys(CRITERIA[:3], RatingScale((1, 5))) | {
    CRITERIA[3]: RatingScale(words=("yes", "no"))
}
_COLUMNS = ("episode_id", "rubric", "rater", *(f"value:{name}" for name in CRITERIA))
_SHOWN = ("task", "language", "persona", "level", "traits", "problem", "dialogue")


@dataclass(frozen=True)
class _Made:
    """What became of one task."""

    task: Task
    dialogues: tuple[tuple[Persona, Rounds], ...] = ()
    rejected: tuple[Mapping[str, str | int], ...] = ()
    reference: str = field(default="", kw_only=True)


def estimate(*, staged: Staged, options: Options) -> Mapping[str, int]:
    """A call a dialogue, and one for each reference that has to be written. Repairs are not foreseen: two more each, at most."""
    tasks, personas = _tasks(staged), _personas(staged)
    return {
        "model": len(tasks) * len(personas)
        + sum(bool(not task.reference and task.python_reference) for task in tasks)
    }


async def construct(request: ConstructionRequest) -> Constructed:
    """Each task's dialogues in the native format, what was rejected with its reason, and a sheet for experts."""
    personas = _personas(request.staged)
    made = await asyncio.gather(
        *(_made(request, task, personas) for task in _tasks(request.staged))
    )
    own = [persona for name, persona in personas.items() if bundled_personas().get(name) != persona]
    dropped = [_dropped(row) for row in request.staged.quarantined]
    files = {
        DIALOGUES: "".join(
            f"{json.dumps(_row(one), ensure_ascii=False)}\n" for one in made if one.dialogues
        ),
        REJECTED: json.dumps(
            [*dropped, *(row for one in made for row in one.rejected)], indent=1, ensure_ascii=False
        )
        + "\n",
        **dict(persona_file(persona) for persona in own),
    }
    rows = [_review_row(one, persona, rounds) for one in made for persona, rounds in one.dialogues]
    return Constructed(files, Review((*_COLUMNS, *_SHOWN), rows, SCALES))


def _tasks(staged: Staged) -> tuple[Task, ...]:
    """The tasks in the order of their problems, whether they have dialogues already or not."""
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
    """The bundled personas and all others of the data, by level and name."""
    found = {
        **bundled_personas(),
        **{(persona := persona_of(dialog)).persona_id: persona for dialog in staged.dialogs},
    }
    order = list(ExpertiseLevel)
    return dict(sorted(found.items(), key=lambda item: (order.index(item[1].level), item[0])))


async def _made(request: ConstructionRequest, task: Task, personas: Mapping[str, Persona]) -> _Made:
    reference = await find_reference(request, task)
    if isinstance(reference, Unwritten):
        return _Made(task, rejected=(_rejected(task, "", reference),))
    written = await asyncio.gather(
        *(written_rounds(request, task, reference, persona) for persona in personas.values())
    )
    pairs = list(zip(personas.values(), written, strict=True))
    return _Made(
        task,
        tuple((persona, rounds) for persona, rounds in pairs if isinstance(rounds, Rounds)),
        tuple(
            _rejected(task, persona.persona_id, fault)
            for persona, fault in pairs
            if isinstance(fault, Unwritten)
        ),
        reference=reference,
    )


def _rejected(task: Task, persona: str, fault: Unwritten) -> Mapping[str, str | int]:
    """One line of the list; without a persona the task has no dialogue at all."""
    said = {"reason": fault.reason, "detail": fault.detail, "n_answers": fault.n_answers}
    return {"task_id": task.task_id, "language": task.language.name, "persona": persona, **said}


def _dropped(row: QuarantinedRow) -> Mapping[str, str | int]:
    """One line of the list: a row of the data that is no task, by its file and line."""
    said = {"reason": row.reason, "detail": row.detail, "n_answers": 0}
    return {
        "task_id": f"{row.source_file}:{row.source_line}",
        "language": "",
        "persona": "",
        **said,
    }


def _row(made: _Made) -> Mapping[str, object]:
    """The task in the native format (README.md)."""
    task = made.task
    return {
        "task_id": task.task_id,
        "language": task.language.name,
        "source": task.source,
        "problem": task.problem,
        "entry_point": task.entry_point,
        "reference": made.reference,
        "tests": list(task.tests),
        "dialogues": [
            {"persona": persona.persona_id, "turns": _turns(made, rounds)}
            for persona, rounds in made.dialogues
        ],
    }


def _turns(made: _Made, rounds: Rounds) -> Sequence[Mapping[str, str]]:
    """The rounds, the program behind the last reply."""
    code = f"```{made.task.language.name}\n{made.reference.rstrip()}\n```"
    replies = (*rounds.replies[:-1], f"{rounds.replies[-1]}\n\n{code}")
    return [
        {"user": user, "assistant": reply}
        for user, reply in zip(rounds.users, replies, strict=True)
    ]


def _review_row(made: _Made, persona: Persona, rounds: Rounds) -> Sequence[Cell]:
    """One dialogue to rate. Its id holds all that the expert reads, so that ratings stay with what was rated."""
    turns = _turns(made, rounds)
    said = "\n\n".join(f"USER: {turn['user']}\n\nASSISTANT: {turn['assistant']}" for turn in turns)
    empty: tuple[Cell, ...] = (None,) * len(CRITERIA)
    task, level = made.task, persona.level.value
    traits = "\n".join(f"{name}: {text}" for name, text in persona.traits)
    shown = (
        task.task_id,
        task.language.name,
        persona.persona_id,
        level,
        traits,
        task.problem,
        said,
    )
    return (f"review-{content_id([task.task_id, persona, turns])}", RUBRIC, None, *empty, *shown)


CONSTRUCTION = Construction(
    help="dialogues with each persona, by incremental disclosure, from HumanEval, ColBench's backend tasks or native rows",
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
