"""Build `codeif-tasks` (section 3.3): base tasks with model-written (instruction, test) pairs.

The pairs are verified by running (section 3.3.2). The build also extracts instruction strategies
(kinds of instruction) from review comments.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from schemas.dialog import Role as Speaker
from schemas.errors import ConfigError
from schemas.problem import BASE_INSTRUCTION, Problem
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
from tasks.benchmarks.codeif.construction.base_task import CONSTRUCTION as DATASET_VERSION
from tasks.benchmarks.codeif.construction.base_task import (
    PROMPTS,
    BaseTask,
    Draft,
    Pair,
    Rejection,
    Verification,
    comments_of,
    k_centres,
)
from tasks.benchmarks.codeif.raw_row import OWN_REASONS
from tasks.benchmarks.codeif.settings import FUNCTIONALITY_EXTENSION, STRATEGIES
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_rows import BadRow, parse_object, validated
from tasks.benchmarks.setting import Option, Options
from tasks.judging.rubric import RatingScale
from tasks.language.chat_model import Message
from tasks.language.markdown_code import first_python_block
from tasks.language.prompt import fill

MOST_REPAIRS = 2
UNREADABLE = "unreadable"
BREAKS_TASK, FAILS_TEST = "solution_breaks_the_task", "solution_fails_its_test"
"""Reasons of rejection: an answer without a pair, and a solution that fails tests."""
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
    first, fault, answer = Message(Speaker.USER, task.question(strategy)), "", ""
    for n in range(MOST_REPAIRS + 1):
        repair = Message(Speaker.USER, fill(PROMPTS["repair_pair"], fault=fault))
        messages = (first, Message(Speaker.ASSISTANT, answer or "-"), repair) if n else (first,)
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
        "model", Message(Speaker.USER, prompt), problem_id=problem_id, turn=len(pairs)
    )
    combined_code = first_python_block((await request.models["model"].complete(question)).content)
    report = await task.fault(combined_code, drafts)
    return (combined_code, "") if report is None else (None, report)


TASKS, STRATEGY_LIST, REJECTED = "L_1_part_1.jsonl", "strategies.json", "rejected.json"
RUBRIC = "codeif.review"
CRITERIA = ("instruction", "test")
"""Yes-or-no questions to two annotators.

`instruction`: is the instruction clear, and does it fit its task? `test`: does the test decide
whether the instruction is followed?
"""
SCALES: Mapping[str, RatingScale] = dict.fromkeys(CRITERIA, RatingScale(words=("yes", "no")))
_SHOWN = ("task_id", "strategy", "vacuous", "task", "requirement", "unit_test", "solution")
SELECTED = "selected"


def estimate(*, staged: Staged, options: Options) -> Mapping[str, int]:
    """Return the number of model calls: one for each selected comment and each pair.

    Repairs (at most two for a pair) and combined solutions are not included.

    Raises:
        ConfigError: the data has no comments.
    """
    comments = comments_of(staged)
    if not comments:
        raise ConfigError(
            "the data has no review comments. Pass a folder with review_comments*.jsonl files:"
            f" --data FOLDER --dataset-version {DATASET_VERSION}"
        )
    return {
        "model": min(int(options[SELECTED]), len(comments)) + len(staged.problems) * len(STRATEGIES)
    }


async def construct(request: ConstructionRequest) -> Constructed:
    """Return tasks in the native format, strategies, rejected pairs, and a sheet for annotators."""
    from asyncio import gather  # imported here, because commands that list benchmarks skip it

    problems = request.staged.problems
    written = gather(*(verified_pairs(BaseTask(request, problem)) for problem in problems))
    strategies, verified = await gather(_strategies(request), written)
    pairs_by_task = list(zip(problems, verified, strict=True))
    files = {
        TASKS: jsonl_file(
            _row(n, problem, verification)
            for n, (problem, verification) in enumerate(pairs_by_task, 1)
            if verification.order
        ),
        STRATEGY_LIST: json_file(strategies),
        REJECTED: json_file(rejected_rows(pairs_by_task)),
    }
    return Constructed(files, review(pairs_by_task))


async def _strategies(request: ConstructionRequest) -> list[dict[str, object]]:
    """Return the instruction strategies that the model extracts from selected review comments.

    Comments with the same strategy are grouped. The most frequent strategy comes first.
    """
    comments = comments_of(request.staged)
    if request.embedder is None:
        raise ConfigError(
            "comments are selected by their vectors: name an embedder by --embedder SPEC"
        )
    vectors = await request.embedder.find(comments)
    embedded = [comment for comment in comments if comment in vectors]
    chosen = [
        embedded[n]
        for n in k_centres([vectors[text] for text in embedded], int(request.options[SELECTED]))
    ]
    from asyncio import gather  # imported here, because commands that list benchmarks skip it

    answers = await gather(*(_strategy(request, n, comment) for n, comment in enumerate(chosen)))
    readings = list(zip(chosen, answers, strict=True))
    names = Counter(reading.strategy for reading in answers if reading)
    strategies: list[dict[str, object]] = []
    for name, n in sorted(names.items(), key=lambda item: (-item[1], item[0])):
        of_name = [(comment, r) for comment, r in readings if r and r.strategy == name]
        strategies.append(
            {
                "strategy": name,
                "demand": of_name[0][1].demand,
                "n": n,
                "n_verifiable": sum(reading.is_verifiable for _, reading in of_name),
                "comments": [comment for comment, _ in of_name],
            }
        )
    unread = [comment for comment, reading in readings if reading is None]
    return [*strategies, *([{"strategy": None, "comments": unread}] if unread else [])]


class _Reading(NamedTuple):
    """Instruction strategy that the model found in a review comment."""

    strategy: str
    demand: str
    is_verifiable: bool
    """True if a test can verify what the comment demands."""


async def _strategy(request: ConstructionRequest, n: int, comment: str) -> _Reading | None:
    """Let the model extract the strategy of a comment. None: the answer is unreadable."""
    message = Message(Speaker.USER, fill(PROMPTS["extract_strategy"], comment=comment))
    answer = await request.models["model"].complete(
        request.question("model", message, problem_id=f"comment/{n}")
    )
    begin, end = answer.content.find("{"), answer.content.rfind("}")
    try:
        fields = parse_object(answer.content[begin : end + 1].encode("utf-8", "surrogatepass"))
        name = " ".join(str(fields["strategy"]).split()).title()
        reading = _Reading(name, str(fields["demand"]).strip(), fields["verifiable"] is True)
    except (ValueError, KeyError, TypeError):
        return None
    return reading if name else None


def rejected_rows(
    pairs_by_task: Sequence[tuple[Problem, Verification]],
) -> list[Mapping[str, str | int]]:
    """Return the rows of the file of rejected pairs."""
    return [
        {
            "task_id": problem.problem_id,
            "strategy": fault.strategy,
            "reason": fault.reason,
            "detail": fault.detail,
            "n_answers": fault.n_answers,
        }
        for problem, verification in pairs_by_task
        for fault in verification.rejections
    ]


def _row(number: int, problem: Problem, verification: Verification) -> Mapping[str, object]:
    """Return the task in the native format; a conflicting pair is a requirement without a turn."""
    return {
        "prompt": problem.prompt,
        "test": list(problem.instruction(BASE_INSTRUCTION).suite.tests),
        "code": problem.reference_code,
        "task_id": int(problem.problem_id.rpartition("/")[2])
        if problem.problem_id.startswith("function/")
        else number,
        "requirements": {
            pair.strategy: {
                "requirement": pair.draft.requirement,
                "unit_test": list(pair.draft.unit_test),
            }
            for pair in verification.pairs
        },
        "multi-turn": list(verification.order),
    }


def review(pairs_by_task: Sequence[tuple[Problem, Verification]]) -> Review:
    """Return the review sheet on which annotators rate the verified pairs."""
    rows = (
        _review_row(problem, pair)
        for problem, verification in pairs_by_task
        for pair in verification.pairs
    )
    return Review.rated(RUBRIC, SCALES, _SHOWN, rows)


def _review_row(problem: Problem, pair: Pair) -> tuple[object, Sequence[Cell]]:
    draft, name = pair.draft, problem.problem_id
    texts = (problem.prompt, draft.requirement, "\n".join(draft.unit_test), draft.solution)
    return [name, pair.strategy, *texts], (name, pair.strategy, pair.is_vacuous, *texts)


_SELECTED = Option(
    name=SELECTED,
    values=("2", "5", "10", "20", "50", "100", "200", "500"),
    default="500",
    affects="episode",
    help="maximum number of review comments from which instruction strategies are extracted",
)
CONSTRUCTION = Construction(
    help="tasks with verified instructions from base tasks, and instruction strategies (kinds of"
    " instruction) from review comments (review_comments*.jsonl)",
    roles={
        "model": Role(
            "writes strategies, instructions, tests and solutions", Sampling(max_tokens=3000)
        )
    },
    construct=construct,
    estimate=estimate,
    prompts=PROMPTS,
    options=(_SELECTED,),
    runs_programs=True,
    needs_embedder=True,
    dataset_version=DATASET_VERSION,
)
