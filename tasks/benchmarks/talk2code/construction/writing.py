"""What the model writes: references in other languages and dialogues, each checked, and repaired at most twice."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from schemas.dialog import Role
from schemas.errors import Unscorable
from schemas.persona import Persona
from schemas.verdict import Outcome
from tasks.benchmarks.construction import ConstructionRequest
from tasks.benchmarks.talk2code.construction.dialogue_rules import (
    ANSWER_SCHEMA,
    Brief,
    Broken,
    Rounds,
    broken_rules,
    read_rounds,
)
from tasks.benchmarks.talk2code.languages import Language, delivered, whole_run
from tasks.benchmarks.talk2code.user.guidelines import Guideline
from tasks.language.chat_model import Message
from tasks.language.prompt import fill, load_prompt

PROMPTS = {
    name: load_prompt("tasks.benchmarks.talk2code", name)
    for name in (
        "write_dialogue",
        "hidden_information",
        "repair_dialogue",
        "write_reference",
        "repair_reference",
    )
}
MOST_REPAIRS = 2
REFERENCE_MISSING, REFERENCE_FAILS, TOOLCHAIN_MISSING = (
    "reference_missing",
    "reference_fails",
    "toolchain_missing",
)
_LONGEST_DETAIL = 600
BACKEND = "backend"
"""Source of tasks whose statement is vague."""
T = TypeVar("T")


@dataclass(frozen=True)
class Task:
    """A task to talk about."""

    task_id: str
    language: Language
    source: str
    problem: str
    entry_point: str
    tests: tuple[str, ...]
    reference: str
    """Empty where it has to be written."""
    python_reference: str

    @property
    def is_vague(self) -> bool:
        """Whether the statement leaves to the reference what decides results: a backend task's, as ColBench has them."""
        return self.source == BACKEND

    @property
    def names(self) -> tuple[str, ...]:
        """What the tests call, so that a user has to name it: the function, in Java its class, too."""
        called = re.search(
            rf"(?<![\w.])([A-Za-z_]\w*)\.{re.escape(self.entry_point)}\(", self.tests[0]
        )
        return (
            (called[1], self.entry_point)
            if called and self.language.kind == "java"
            else (self.entry_point,)
        )


@dataclass(frozen=True)
class Unwritten:
    """Nothing that can be used: the reason, what was wrong with the last answer, and how many answers were tried."""

    reason: str
    detail: str
    n_answers: int = 0


@dataclass(frozen=True)
class Faults:
    """What is wrong with an answer; at least one thing."""

    broken: tuple[Broken, ...]


async def find_reference(request: ConstructionRequest, task: Task) -> str | Unwritten:
    """The task's own reference, or one written from that in Python; it passes all tests.

    Raises:
        SandboxUnavailable: it could not be run.
        ModelUnavailable: no answer.
    """

    async def fault_of(code: str) -> Broken | None:
        tested, tests = whole_run(code, task.tests, task.language)
        try:
            verdict = await request.programs.run(task.language.kind, tested, tests)
        except Unscorable as missing:
            return Broken(TOOLCHAIN_MISSING, str(missing))
        if verdict.outcome is Outcome.UNSCORED:
            return Broken(TOOLCHAIN_MISSING, verdict.detail)
        case = next(
            (case.detail for case in verdict.cases if case.outcome is not Outcome.PASSED), ""
        )
        said = (verdict.detail or case or verdict.outcome.value)[-_LONGEST_DETAIL:]
        return None if verdict.outcome is Outcome.PASSED else Broken(REFERENCE_FAILS, said)

    if task.reference:
        fault = await fault_of(task.reference)
        return task.reference if fault is None else Unwritten(fault.reason, fault.detail)
    if not task.python_reference:
        return Unwritten(
            REFERENCE_MISSING, "the row has none, and there is none in Python to write it from"
        )

    async def read(answer: str) -> str | Faults:
        code = delivered(answer, task.language, task.entry_point)
        if code is None:
            return Faults(
                (
                    Broken(
                        REFERENCE_MISSING,
                        f"No code block in {task.language.name} defines {task.entry_point}.",
                    ),
                )
            )
        fault = await fault_of(code)
        return code if fault is None else Faults((fault,))

    asked = fill(
        PROMPTS["write_reference"],
        language=task.language.name,
        entry_point=task.entry_point,
        problem=task.problem,
        reference=task.python_reference.strip(),
    )
    found = await _written(
        request,
        task,
        asked,
        lambda faults: fill(PROMPTS["repair_reference"], fault=faults),
        read,
        None,
    )
    if isinstance(found, Unwritten) and found.reason != TOOLCHAIN_MISSING:
        return Unwritten(REFERENCE_MISSING, found.detail, found.n_answers)
    return found


async def written_rounds(
    request: ConstructionRequest, task: Task, reference: str, persona: Persona
) -> Rounds | Unwritten:
    """The dialogue with a persona, which breaks no rule.

    Raises:
        ModelUnavailable: no answer.
    """
    brief = Brief(
        persona.level,
        persona.persona_id,
        task.language.name,
        task.names,
        task.problem,
        reference,
        is_vague=task.is_vague,
    )
    guideline = brief.guideline

    async def read(answer: str) -> Rounds | Faults:
        rounds = read_rounds(answer)
        broken = (rounds,) if isinstance(rounds, Broken) else broken_rules(rounds, brief)
        return Faults(broken) if broken or isinstance(rounds, Broken) else rounds

    asked = fill(
        PROMPTS["write_dialogue"],
        persona="\n".join(f"{name.replace('_', ' ')}: {text}" for name, text in persona.traits),
        level=f"{persona.persona_id.replace('_', ' ')}, {persona.level.value}",
        guidance=guideline.guidance.strip(),
        avoided=_avoided(guideline),
        used=_used(guideline),
        fewest=str(guideline.rounds[0]),
        most=str(guideline.rounds[1]),
        language=task.language.name,
        names=", ".join(f"`{name}`" for name in task.names),
        problem=task.problem,
        hidden=f"\n\n{fill(PROMPTS['hidden_information'], reference=reference.strip())}"
        if task.is_vague
        else "",
    )
    return await _written(
        request,
        task,
        asked,
        lambda faults: fill(PROMPTS["repair_dialogue"], faults=faults),
        read,
        dict(ANSWER_SCHEMA),
    )


async def _written(
    request: ConstructionRequest,
    task: Task,
    asked: str,
    again: Callable[[str], str],
    read: Callable[[str], Awaitable[T | Faults]],
    schema: dict[str, object] | None,
) -> T | Unwritten:
    """What can be read of an answer. Each repair shows the first question, the last answer, and what is wrong with it."""
    messages: tuple[Message, ...] = (Message(Role.USER, asked),)
    repair = 0
    while True:
        question = request.question(
            "model",
            *messages,
            problem_id=task.task_id,
            turn=repair + 1,
            sample=repair,
            answer_schema=schema,
        )
        answer = (await request.models["model"].complete(question)).content
        found = await read(answer)
        if not isinstance(found, Faults):
            return found
        faults, repair = found.broken, repair + 1
        if repair > MOST_REPAIRS or faults[0].reason == TOOLCHAIN_MISSING:
            return Unwritten(faults[0].reason, " ".join(fault.detail for fault in faults), repair)
        told = "\n".join(f"- {fault.detail}" for fault in faults)
        messages = (
            messages[0],
            Message(Role.ASSISTANT, answer or "(nothing)"),
            Message(Role.USER, again(told)),
        )


def _avoided(guideline: Guideline) -> str:
    until = (
        " before the last message, in which names are passed on"
        if guideline.avoids_until_last
        else ""
    )
    never = (
        f" At no time such a user says: {', '.join(guideline.never_says)}."
        if guideline.never_says
        else ""
    )
    return f"Such a user does not say{until}: {', '.join(guideline.avoids)}.{never}"


def _used(guideline: Guideline) -> str:
    return (
        f"Such a user says at least {guideline.least_used} of: {', '.join(guideline.uses)}."
        if guideline.least_used
        else ""
    )
