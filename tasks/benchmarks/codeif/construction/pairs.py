"""(instruction, test) pairs for a base task: a model writes them, and each is verified by running it (section 3.3.2)."""

import re
from collections.abc import Sequence

from schemas.dialog import Role
from tasks.benchmarks.codeif.construction.base_task import PROMPTS, BaseTask
from tasks.benchmarks.codeif.construction.written import Pair, Rejected, Verified, Written
from tasks.benchmarks.codeif.raw_row import OWN_REASONS
from tasks.benchmarks.codeif.strategies import FUNCTIONALITY_EXTENSION
from tasks.benchmarks.raw_lines import BadRow, parse_object, validated
from tasks.language.chat_model import Message
from tasks.language.code_block import first_python_block
from tasks.language.prompt import fill

MOST_REPAIRS = 2
UNREADABLE, BREAKS_TASK, FAILS_TEST = (
    "unreadable",
    "solution_breaks_the_task",
    "solution_fails_its_test",
)
UNSOUND = "reference_fails_its_tests"
"""The base task's reference code fails the base task's own tests here, so that no verdict on a pair means anything."""
_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)


async def verified_pairs(task: BaseTask) -> Verified:
    """Write a pair for each strategy, and order those that hold.

    A task whose reference code fails the task's own tests is asked for no pair.

    Raises:
        SandboxUnavailable: a program could not be run.
        ModelUnavailable: no answer.
    """
    from asyncio import gather  # not above: a command that only names benchmarks starts without it

    fault = await task.fault(task.problem.reference_code, {})
    if fault is not None:
        return Verified(
            (), (), tuple(Rejected(strategy, UNSOUND, fault, 0) for strategy in task.strategies)
        )
    found = await gather(*(write_pair(task, strategy) for strategy in task.strategies))
    pairs = tuple(one for one in found if isinstance(one, Pair))
    order, conflicting = await turn_order(task, pairs)
    return Verified(
        pairs, order, (*(one for one in found if isinstance(one, Rejected)), *conflicting)
    )


async def write_pair(task: BaseTask, strategy: str) -> Pair | Rejected:
    """A pair of a strategy, mended by the model itself at most twice.

    Raises:
        SandboxUnavailable: it could not be run.
        ModelUnavailable: no answer.
    """
    request, problem_id = task.request, task.problem.problem_id
    first, fault, answer = Message(Role.USER, task.question(strategy)), "", ""
    for n in range(MOST_REPAIRS + 1):
        again = Message(Role.USER, fill(PROMPTS["repair_pair"], fault=fault))
        messages = (first, Message(Role.ASSISTANT, answer or "-"), again) if n else (first,)
        question = request.question("model", *messages, problem_id=problem_id, turn=n + 1, sample=n)
        answer = (await request.models["model"].complete(question)).content
        found = _read(task, strategy, answer)
        if isinstance(found, Written):
            said = await _fault(task, strategy, found)
            if said is None:
                ignorant = task.ignorant_code(strategy)
                is_vacuous = await task.fault(ignorant, {strategy: found}, with_base=False) is None
                return Pair(strategy, found, is_vacuous, n + 1)
            fault = said
        else:
            fault = found
    reason, _, detail = fault.partition(": ")
    return Rejected(strategy, reason, detail, MOST_REPAIRS + 1)


def _read(task: BaseTask, strategy: str, answer: str) -> Written | str:
    fenced = _FENCE.search(answer)
    text = fenced[1] if fenced else answer
    try:
        written = validated(
            Written, parse_object(text.encode("utf-8", "surrogatepass")), OWN_REASONS
        )
    except BadRow as bad:
        return f"{UNREADABLE}: it is not the JSON that was asked for ({bad.detail})"
    fault = task.unreadable(strategy, written)
    return written if fault is None else f"{UNREADABLE}: {fault}"


async def _fault(task: BaseTask, strategy: str, written: Written) -> str | None:
    if (
        strategy != FUNCTIONALITY_EXTENSION
        and (said := await task.fault(written.solution, {})) is not None
    ):
        return f"{BREAKS_TASK}: the solution fails the task's own tests: {said}"
    said = await task.fault(written.solution, {strategy: written}, with_base=False)
    return None if said is None else f"{FAILS_TEST}: the solution fails the unit test: {said}"


async def turn_order(
    task: BaseTask, pairs: Sequence[Pair]
) -> tuple[tuple[str, ...], tuple[Rejected, ...]]:
    """Strategies in the order in which they are given, and those that conflict with an earlier one.

    A strategy joins where one code passes the task's tests and those of all before it: what is at hand, or what the model then
    writes. Functionality Extension conflicts by design and comes last.

    Raises:
        SandboxUnavailable, ModelUnavailable: as `write_pair`.
    """
    joined: list[Pair] = []
    conflicting: list[Rejected] = []
    code = task.problem.reference_code
    for pair in pairs:
        if pair.strategy == FUNCTIONALITY_EXTENSION:
            continue
        found, said = await _combined(task, (*joined, pair), code)
        if found is None:
            conflicting.append(Rejected(pair.strategy, "conflict", said, 1))
            continue
        joined.append(pair)
        code = found
    last = [pair.strategy for pair in pairs if pair.strategy == FUNCTIONALITY_EXTENSION]
    return (*(pair.strategy for pair in joined), *last), tuple(conflicting)


async def _combined(task: BaseTask, pairs: Sequence[Pair], code: str) -> tuple[str | None, str]:
    """Code that passes all tests, else what they said of the last try."""
    together = {pair.strategy: pair.written for pair in pairs}
    for candidate in (code, pairs[-1].written.solution):
        if await task.fault(candidate, together) is None:
            return candidate, ""
    listed = "\n".join(f"- {pair.written.requirement}" for pair in pairs)
    asked = fill(
        PROMPTS["combine"], task=task.problem.prompt, requirements=listed, code=code.strip()
    )
    request, problem_id = task.request, task.problem.problem_id
    question = request.question(
        "model", Message(Role.USER, asked), problem_id=problem_id, turn=len(pairs)
    )
    answered = first_python_block((await request.models["model"].complete(question)).content)
    said = await task.fault(answered, together)
    return (answered, "") if said is None else (None, said)
