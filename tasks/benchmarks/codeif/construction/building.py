"""Build `codeif-tasks` (section 3.3): verified instructions for base tasks.

The build also extracts instruction strategies (kinds of instruction) from review comments.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

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
from tasks.benchmarks.codeif.construction.base_task import (
    PROMPTS,
    FunctionTask,
    Pair,
    Verification,
)
from tasks.benchmarks.codeif.construction.comments import CONSTRUCTION as DATASET_VERSION
from tasks.benchmarks.codeif.construction.comments import comments_of, k_centres
from tasks.benchmarks.codeif.construction.pairs import verified_pairs
from tasks.benchmarks.codeif.strategies import STRATEGIES
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_rows import parse_object
from tasks.benchmarks.setting import Option, Options
from tasks.judging.rubric import RatingScale
from tasks.language.chat_model import Message
from tasks.language.prompt import fill

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
    written = gather(*(verified_pairs(FunctionTask(request, problem)) for problem in problems))
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

    readings = await gather(*(_strategy(request, n, comment) for n, comment in enumerate(chosen)))
    names = Counter(reading["strategy"] for reading in readings if reading)
    strategies: list[dict[str, object]] = []
    for name, n in sorted(names.items(), key=lambda item: (-item[1], item[0])):
        of_name = [
            (comment, reading)
            for comment, reading in zip(chosen, readings, strict=True)
            if reading and reading["strategy"] == name
        ]
        verifiable = sum(reading["verifiable"] == "true" for _, reading in of_name)
        examples = [comment for comment, _ in of_name]
        demand = of_name[0][1]["demand"]
        strategies.append(
            {
                "strategy": name,
                "demand": demand,
                "n": n,
                "n_verifiable": verifiable,
                "comments": examples,
            }
        )
    unread = [comment for comment, reading in zip(chosen, readings, strict=True) if reading is None]
    return [*strategies, *([{"strategy": None, "comments": unread}] if unread else [])]


async def _strategy(request: ConstructionRequest, n: int, comment: str) -> dict[str, str] | None:
    """Let the model extract the instruction strategy of a review comment.

    Return its name, what it demands, and whether a test can verify it. Return None if the answer is
    unreadable.
    """
    message = Message(Speaker.USER, fill(PROMPTS["extract_strategy"], comment=comment))
    answer = await request.models["model"].complete(
        request.question("model", message, problem_id=f"comment/{n}")
    )
    begin, end = answer.content.find("{"), answer.content.rfind("}")
    try:
        fields = parse_object(answer.content[begin : end + 1].encode("utf-8", "surrogatepass"))
        name, demand = (
            " ".join(str(fields["strategy"]).split()).title(),
            str(fields["demand"]).strip(),
        )
        return (
            {
                "strategy": name,
                "demand": demand,
                "verifiable": str(fields["verifiable"] is True).lower(),
            }
            if name
            else None
        )
    except (ValueError, KeyError, TypeError):
        return None


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
