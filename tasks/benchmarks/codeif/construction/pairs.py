"""(instruction, test) pairs for a base task: a model writes them, and each is verified by running it (section 3.3.2)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.dialog import Role
from schemas.problem import BASE_INSTRUCTION, Problem
from schemas.verdict import Outcome
from tasks.benchmarks.codeif.raw_row import OWN_REASONS, RawRequirement
from tasks.benchmarks.codeif.strategies import FUNCTIONALITY_EXTENSION
from tasks.benchmarks.construction import ConstructionRequest
from tasks.benchmarks.raw_lines import BadRow, Text, parse_object, validated
from tasks.language.chat_model import Message
from tasks.language.code_block import first_python_block
from tasks.language.prompt import fill, load_prompt

PROMPTS = {
    name: load_prompt("tasks.benchmarks.codeif", name) for name in ("extract_strategy", "write_pair", "repair_pair", "combine")
}
DESCRIPTIONS: Mapping[str, str] = {
    "Input-Output Conditions": "what the code takes and gives back: types, ranges, forms of its arguments and results.",
    "Exception Handling": "which error the code raises, or lets nobody see, and when.",
    "Edge Case Handling": "what the code does at the ends of its range: nothing, one thing, very much, extreme values.",
    "Annotation Coverage": "types that the code's signatures state.",
    "Code Complexity": "how much structure the code may have, such as branches, nesting or length.",
    "Code Standard": "a rule of style that the text of the code keeps to.",
    FUNCTIONALITY_EXTENSION: "something that the code can do besides, even if that changes what was asked first.",
}
"""Strategy -> what its requirements are about (Table 1)."""
MOST_REPAIRS = 2
UNREADABLE, BREAKS_TASK, FAILS_TEST = "unreadable", "solution_breaks_the_task", "solution_fails_its_test"
UNSOUND = "reference_fails_its_tests"
"""The base task's reference code fails the base task's own tests here, so that no verdict on a pair means anything."""
_LONGEST_DETAIL = 600
_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)


class Written(RawRequirement):
    """What a model writes: a requirement as the native format has it, and code that meets it."""

    solution: Text


@dataclass(frozen=True)
class Pair:
    """A pair that its own solution passes."""

    strategy: str
    written: Written
    is_vacuous: bool
    """The base solution, which knows nothing of the requirement, passes as well: the test tells nothing."""
    n_answers: int


@dataclass(frozen=True)
class Rejected:
    """A pair that came to nothing."""

    strategy: str
    reason: str
    detail: str
    n_answers: int


async def write_pair(request: ConstructionRequest, problem: Problem, strategy: str) -> Pair | Rejected:
    """A pair of a strategy, mended by the model itself at most twice.

    Raises:
        SandboxUnavailable: it could not be run.
        ModelUnavailable: no answer.
    """
    asked = fill(
        PROMPTS["write_pair"],
        task=problem.prompt,
        reference=problem.reference_code.strip(),
        strategy=strategy,
        description=DESCRIPTIONS[strategy],
    )
    first, fault, answer = Message(Role.USER, asked), "", ""
    for n in range(MOST_REPAIRS + 1):
        again = Message(Role.USER, fill(PROMPTS["repair_pair"], fault=fault))
        messages = (first, Message(Role.ASSISTANT, answer or "-"), again) if n else (first,)
        question = request.question("model", *messages, problem_id=problem.problem_id, turn=n + 1, sample=n)
        answer = (await request.models["model"].complete(question)).content
        found = _read(answer)
        if isinstance(found, Written):
            said = await _fault(request, problem, strategy, found)
            if said is None:
                is_vacuous = await passes(request, problem.reference_code, found.unit_test) is None
                return Pair(strategy, found, is_vacuous, n + 1)
            fault = said
        else:
            fault = found
    reason, _, detail = fault.partition(": ")
    return Rejected(strategy, reason, detail, MOST_REPAIRS + 1)


def _read(answer: str) -> Written | str:
    fenced = _FENCE.search(answer)
    text = fenced[1] if fenced else answer
    try:
        return validated(Written, parse_object(text.encode("utf-8", "surrogatepass")), OWN_REASONS)
    except BadRow as bad:
        return f"{UNREADABLE}: it is not the JSON that was asked for ({bad.detail})"


async def _fault(request: ConstructionRequest, problem: Problem, strategy: str, written: Written) -> str | None:
    base = problem.instruction(BASE_INSTRUCTION).suite.tests
    if strategy != FUNCTIONALITY_EXTENSION and (said := await passes(request, written.solution, base)) is not None:
        return f"{BREAKS_TASK}: the solution fails the task's own tests: {said}"
    said = await passes(request, written.solution, written.unit_test)
    return None if said is None else f"{FAILS_TEST}: the solution fails the unit test: {said}"


async def passes(request: ConstructionRequest, code: str, tests: Sequence[str]) -> str | None:
    """None where code passes the tests, else what they said."""
    verdict = await request.programs.run("statements", code, tuple(tests))
    return None if verdict.outcome is Outcome.PASSED else (verdict.detail or verdict.outcome.value)[-_LONGEST_DETAIL:]


async def turn_order(
    request: ConstructionRequest, problem: Problem, pairs: Sequence[Pair]
) -> tuple[tuple[str, ...], tuple[Rejected, ...]]:
    """Strategies in the order in which they are given, and those that conflict with an earlier one.

    A strategy joins where one code passes the task's tests and those of all before it: what is at hand, or what the model then
    writes. Functionality Extension conflicts by design and comes last.

    Raises:
        SandboxUnavailable, ModelUnavailable: as `write_pair`.
    """
    joined: list[Pair] = []
    conflicting: list[Rejected] = []
    tests = list(problem.instruction(BASE_INSTRUCTION).suite.tests)
    code = problem.reference_code
    for pair in pairs:
        if pair.strategy == FUNCTIONALITY_EXTENSION:
            continue
        together = (*tests, *pair.written.unit_test)
        found, said = await _combined(request, problem, (*joined, pair), code, together)
        if found is None:
            conflicting.append(Rejected(pair.strategy, "conflict", said, 1))
            continue
        joined.append(pair)
        tests, code = list(together), found
    last = [pair.strategy for pair in pairs if pair.strategy == FUNCTIONALITY_EXTENSION]
    return (*(pair.strategy for pair in joined), *last), tuple(conflicting)


async def _combined(
    request: ConstructionRequest, problem: Problem, pairs: Sequence[Pair], code: str, tests: Sequence[str]
) -> tuple[str | None, str]:
    """Code that passes all tests, else what they said of the last try."""
    for candidate in (code, pairs[-1].written.solution):
        if await passes(request, candidate, tests) is None:
            return candidate, ""
    listed = "\n".join(f"- {pair.written.requirement}" for pair in pairs)
    asked = fill(PROMPTS["combine"], task=problem.prompt, requirements=listed, code=code.strip())
    question = request.question("model", Message(Role.USER, asked), problem_id=problem.problem_id, turn=len(pairs))
    answered = first_python_block((await request.models["model"].complete(question)).content)
    said = await passes(request, answered, tests)
    return (answered, "") if said is None else (None, said)
