"""Model-written (instruction, test) pairs for a base task, verified by running (section 3.3.2)."""

import re
from collections.abc import Sequence

from schemas.dialog import Role
from tasks.benchmarks.codeif.construction.base_task import (
    PROMPTS,
    BaseTask,
    Draft,
    Pair,
    Rejection,
    Verification,
)
from tasks.benchmarks.codeif.raw_row import OWN_REASONS
from tasks.benchmarks.codeif.strategies import FUNCTIONALITY_EXTENSION
from tasks.benchmarks.raw_rows import BadRow, parse_object, validated
from tasks.language.chat_model import Message
from tasks.language.markdown_code import first_python_block
from tasks.language.prompt import fill

MOST_REPAIRS = 2
UNREADABLE, BREAKS_TASK, FAILS_TEST = (
    "unreadable",
    "solution_breaks_the_task",
    "solution_fails_its_test",
)
UNSOUND = "reference_fails_its_tests"
"""Reason of rejection: the base task's reference code fails the task's own tests on this machine,
so verdicts on its pairs would have no meaning."""
_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)


async def verified_pairs(task: BaseTask) -> Verification:
    """Let the model write an (instruction, test) pair for each instruction strategy, and verify it.

    Return the verified pairs, the order of their turns, and the rejected pairs. If the task's
    reference code fails the task's tests, all pairs are rejected without a call of the model.

    Raises:
        SandboxUnavailable: a program could not be run.
        ModelUnavailable: the model gave no answer.
    """
    from asyncio import gather  # imported here, because commands that list benchmarks skip it

    fault = await task.fault(task.problem.reference_code, {})
    if fault is not None:
        return Verification(
            (), (), tuple(Rejection(strategy, UNSOUND, fault, 0) for strategy in task.strategies)
        )
    results = await gather(*(write_pair(task, strategy) for strategy in task.strategies))
    pairs = tuple(result for result in results if isinstance(result, Pair))
    order, conflicts = await turn_order(task, pairs)
    return Verification(
        pairs,
        order,
        (*(result for result in results if isinstance(result, Rejection)), *conflicts),
    )


async def write_pair(task: BaseTask, strategy: str) -> Pair | Rejection:
    """Let the model write a pair for an instruction strategy, and repair it at most twice.

    Raises:
        SandboxUnavailable: a program could not be run.
        ModelUnavailable: the model gave no answer.
    """
    request, problem_id = task.request, task.problem.problem_id
    first, fault, answer = Message(Role.USER, task.question(strategy)), "", ""
    for n in range(MOST_REPAIRS + 1):
        repair = Message(Role.USER, fill(PROMPTS["repair_pair"], fault=fault))
        messages = (first, Message(Role.ASSISTANT, answer or "-"), repair) if n else (first,)
        question = request.question("model", *messages, problem_id=problem_id, turn=n + 1, sample=n)
        answer = (await request.models["model"].complete(question)).content
        draft = _read(task, strategy, answer)
        if isinstance(draft, Draft):
            pair_fault = await _test_fault(task, strategy, draft)
            if pair_fault is None:
                ignorant = task.ignorant_code(strategy)
                is_vacuous = await task.fault(ignorant, {strategy: draft}, with_base=False) is None
                return Pair(strategy, draft, is_vacuous, n + 1)
            fault = pair_fault
        else:
            fault = draft
    reason, _, detail = fault.partition(": ")
    return Rejection(strategy, reason, detail, MOST_REPAIRS + 1)


def _read(task: BaseTask, strategy: str, answer: str) -> Draft | str:
    block = _FENCE.search(answer)
    text = block[1] if block else answer
    try:
        draft = validated(Draft, parse_object(text.encode("utf-8", "surrogatepass")), OWN_REASONS)
    except BadRow as bad:
        return f"{UNREADABLE}: it is not the JSON that was asked for ({bad.detail})"
    fault = task.unreadable(strategy, draft)
    return draft if fault is None else f"{UNREADABLE}: {fault}"


async def _test_fault(task: BaseTask, strategy: str, draft: Draft) -> str | None:
    if (
        strategy != FUNCTIONALITY_EXTENSION
        and (report := await task.fault(draft.solution, {})) is not None
    ):
        return f"{BREAKS_TASK}: the solution fails the task's own tests: {report}"
    report = await task.fault(draft.solution, {strategy: draft}, with_base=False)
    return None if report is None else f"{FAILS_TEST}: the solution fails the unit test: {report}"


async def turn_order(
    task: BaseTask, pairs: Sequence[Pair]
) -> tuple[tuple[str, ...], tuple[Rejection, ...]]:
    """Return the strategies in the order of their turns, and those that conflict with earlier ones.

    A strategy joins the order if one program passes the tests of the task, of all earlier
    strategies and of this one. The candidates are the program of the earlier strategies, the pair's
    solution, and a program that the model writes for all of them. Functionality Extension conflicts
    by design and comes last.

    Raises:
        SandboxUnavailable: a program could not be run.
        ModelUnavailable: the model gave no answer.
    """
    ordered: list[Pair] = []
    conflicts: list[Rejection] = []
    code = task.problem.reference_code
    for pair in pairs:
        if pair.strategy == FUNCTIONALITY_EXTENSION:
            continue
        combined, report = await _combine(task, (*ordered, pair), code)
        if combined is None:
            conflicts.append(Rejection(pair.strategy, "conflict", report, 1))
            continue
        ordered.append(pair)
        code = combined
    last = [pair.strategy for pair in pairs if pair.strategy == FUNCTIONALITY_EXTENSION]
    return (*(pair.strategy for pair in ordered), *last), tuple(conflicts)


async def _combine(task: BaseTask, pairs: Sequence[Pair], code: str) -> tuple[str | None, str]:
    """Return code that passes all tests, or None with the tests' report on the last attempt."""
    drafts = {pair.strategy: pair.draft for pair in pairs}
    for candidate in (code, pairs[-1].draft.solution):
        if await task.fault(candidate, drafts) is None:
            return candidate, ""
    requirements = "\n".join(f"- {pair.draft.requirement}" for pair in pairs)
    prompt = fill(
        PROMPTS["combine"], task=task.problem.prompt, requirements=requirements, code=code.strip()
    )
    request, problem_id = task.request, task.problem.problem_id
    question = request.question(
        "model", Message(Role.USER, prompt), problem_id=problem_id, turn=len(pairs)
    )
    combined_code = first_python_block((await request.models["model"].complete(question)).content)
    report = await task.fault(combined_code, drafts)
    return (combined_code, "") if report is None else (None, report)
