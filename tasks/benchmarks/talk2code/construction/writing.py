"""Model-written references and dialogues, each checked and repaired at most twice."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from schemas.dialog import Persona, Role
from schemas.errors import Unscorable
from schemas.verdict import Outcome
from tasks.benchmarks.advanced import ConstructionRequest
from tasks.benchmarks.talk2code.construction.dialogue_rules import (
    ANSWER_SCHEMA,
    Brief,
    Rounds,
    Violation,
    read_rounds,
    violations,
)
from tasks.benchmarks.talk2code.languages import Language, combined_run, delivered_program
from tasks.benchmarks.talk2code.user.persona_user import Guideline
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
"""`Task.source` of ColBench's backend tasks, whose statements omit details."""
T = TypeVar("T")


@dataclass(frozen=True)
class Task:
    """Task that a dialogue is about: statement, tests and reference."""

    task_id: str
    language: Language
    source: str
    problem: str
    entry_point: str
    tests: tuple[str, ...]
    reference: str
    """Reference program; empty if it must be written."""
    python_reference: str

    @property
    def is_vague(self) -> bool:
        """True if only the reference defines all details, as in ColBench's backend tasks."""
        return self.source == BACKEND

    @property
    def names(self) -> tuple[str, ...]:
        """Names that the tests call and the user must mention: the function, in Java its class."""
        call = re.search(
            rf"(?<![\w.])([A-Za-z_]\w*)\.{re.escape(self.entry_point)}\(", self.tests[0]
        )
        return (
            (call[1], self.entry_point)
            if call and self.language.kind == "java"
            else (self.entry_point,)
        )


@dataclass(frozen=True)
class WritingFailure:
    """Failure to write a usable text: reason, fault of the last answer, number of answers."""

    reason: str
    detail: str
    n_answers: int = 0


@dataclass(frozen=True)
class Faults:
    """Violations of rules in an answer; at least one."""

    violations: tuple[Violation, ...]


async def find_reference(request: ConstructionRequest, task: Task) -> str | WritingFailure:
    """Return a reference that passes all tests: the task's own, or one written from Python.

    Raises:
        SandboxUnavailable: a program could not be run.
        ModelUnavailable: the model gave no answer.
    """

    async def fault_of(code: str) -> Violation | None:
        program, tests = combined_run(code, task.tests, task.language)
        try:
            verdict = await request.programs.run(task.language.kind, program, tests)
        except Unscorable as missing:
            return Violation(TOOLCHAIN_MISSING, str(missing))
        if verdict.outcome is Outcome.UNSCORED:
            return Violation(TOOLCHAIN_MISSING, verdict.detail)
        case = next(
            (case.detail for case in verdict.cases if case.outcome is not Outcome.PASSED), ""
        )
        report = (verdict.detail or case or verdict.outcome.value)[-_LONGEST_DETAIL:]
        return None if verdict.outcome is Outcome.PASSED else Violation(REFERENCE_FAILS, report)

    if task.reference:
        fault = await fault_of(task.reference)
        return task.reference if fault is None else WritingFailure(fault.reason, fault.detail)
    if not task.python_reference:
        return WritingFailure(
            REFERENCE_MISSING, "the row has none, and there is none in Python to write it from"
        )

    async def read(answer: str) -> str | Faults:
        code = delivered_program(answer, task.language, task.entry_point)
        if code is None:
            return Faults(
                (
                    Violation(
                        REFERENCE_MISSING,
                        f"No code block in {task.language.name} defines {task.entry_point}.",
                    ),
                )
            )
        fault = await fault_of(code)
        return code if fault is None else Faults((fault,))

    prompt = fill(
        PROMPTS["write_reference"],
        language=task.language.name,
        entry_point=task.entry_point,
        problem=task.problem,
        reference=task.python_reference.strip(),
    )
    reference = await _write(
        request,
        task,
        prompt,
        lambda faults: fill(PROMPTS["repair_reference"], fault=faults),
        read,
        None,
    )
    if isinstance(reference, WritingFailure) and reference.reason != TOOLCHAIN_MISSING:
        return WritingFailure(REFERENCE_MISSING, reference.detail, reference.n_answers)
    return reference


async def write_rounds(
    request: ConstructionRequest, task: Task, reference: str, persona: Persona
) -> Rounds | WritingFailure:
    """Write a dialogue with a persona that violates no rule.

    Raises:
        ModelUnavailable: the model gave no answer.
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
        faults = (rounds,) if isinstance(rounds, Violation) else violations(rounds, brief)
        return Faults(faults) if faults or isinstance(rounds, Violation) else rounds

    prompt = fill(
        PROMPTS["write_dialogue"],
        persona="\n".join(f"{name.replace('_', ' ')}: {text}" for name, text in persona.traits),
        level=f"{persona.persona_id.replace('_', ' ')}, {persona.level.value}",
        guidance=guideline.guidance.strip(),
        avoided=_avoided_terms(guideline),
        used=_used_terms(guideline),
        fewest=str(guideline.rounds[0]),
        most=str(guideline.rounds[1]),
        language=task.language.name,
        names=", ".join(f"`{name}`" for name in task.names),
        problem=task.problem,
        hidden=f"\n\n{fill(PROMPTS['hidden_information'], reference=reference.strip())}"
        if task.is_vague
        else "",
    )
    return await _write(
        request,
        task,
        prompt,
        lambda faults: fill(PROMPTS["repair_dialogue"], faults=faults),
        read,
        dict(ANSWER_SCHEMA),
    )


async def _write(
    request: ConstructionRequest,
    task: Task,
    prompt: str,
    repair_prompt: Callable[[str], str],
    read: Callable[[str], Awaitable[T | Faults]],
    schema: dict[str, object] | None,
) -> T | WritingFailure:
    """Request an answer, and up to `MOST_REPAIRS` repairs, until `read` accepts one.

    A repair request contains the first question, the last answer and its faults.
    """
    messages: tuple[Message, ...] = (Message(Role.USER, prompt),)
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
        result = await read(answer)
        if not isinstance(result, Faults):
            return result
        faults, repair = result.violations, repair + 1
        if repair > MOST_REPAIRS or faults[0].reason == TOOLCHAIN_MISSING:
            return WritingFailure(
                faults[0].reason, " ".join(fault.detail for fault in faults), repair
            )
        fault_list = "\n".join(f"- {fault.detail}" for fault in faults)
        messages = (
            messages[0],
            Message(Role.ASSISTANT, answer or "(nothing)"),
            Message(Role.USER, repair_prompt(fault_list)),
        )


def _avoided_terms(guideline: Guideline) -> str:
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


def _used_terms(guideline: Guideline) -> str:
    return (
        f"Such a user says at least {guideline.least_used} of: {', '.join(guideline.uses)}."
        if guideline.least_used
        else ""
    )
