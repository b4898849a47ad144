"""`parley build codeif-tasks` (section 3.3): base tasks get verified instructions, and review comments become strategies."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from schemas.content_id import content_id
from schemas.dialog import Role as Speaker
from schemas.errors import ConfigError
from schemas.problem import BASE_INSTRUCTION, Problem
from schemas.run import Sampling
from tasks.benchmarks.codeif.construction.base_task import PROMPTS, FunctionTask
from tasks.benchmarks.codeif.construction.comments import CONSTRUCTION as DATASET_VERSION
from tasks.benchmarks.codeif.construction.comments import comments_of
from tasks.benchmarks.codeif.construction.pairs import verified_pairs
from tasks.benchmarks.codeif.construction.selecting import k_centres
from tasks.benchmarks.codeif.construction.written import Pair, Rejected, Verified
from tasks.benchmarks.codeif.strategies import STRATEGIES
from tasks.benchmarks.construction import (
    Cell,
    Constructed,
    Construction,
    ConstructionRequest,
    Review,
    Role,
)
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_lines import parse_object
from tasks.benchmarks.setting import Option, Options
from tasks.judging.rating_scales import RatingScale
from tasks.language.chat_model import Message
from tasks.language.prompt import fill

TASKS, STRATEGY_LIST, REJECTED = "L_1_part_1.jsonl", "strategies.json", "rejected.json"
RUBRIC = "codeif.review"
CRITERIA = ("instruction", "test")
"""What two annotators say, yes or no: the instruction is clear and fits its task; the test decides it."""
SCALES: Mapping[str, RatingScale] = dict.fromkeys(CRITERIA, RatingScale(words=("yes", "no")))
_COLUMNS = ("episode_id", "rubric", "rater", *(f"value:{name}" for name in CRITERIA))
_SHOWN = ("task_id", "strategy", "vacuous", "task", "requirement", "unit_test", "solution")
SELECTED = "selected"


def estimate(*, staged: Staged, options: Options) -> Mapping[str, int]:
    """A call for each chosen comment and each pair. Repairs (two a pair at most) and combined solutions are not foreseen.

    Raises:
        ConfigError: the data has no comments.
    """
    comments = comments_of(staged)
    if not comments:
        raise ConfigError(
            f"the data has no review comments. Give a folder with review_comments*.jsonl by --data, with --dataset-version"
            f" {DATASET_VERSION}"
        )
    return {
        "model": min(int(options[SELECTED]), len(comments)) + len(staged.problems) * len(STRATEGIES)
    }


async def construct(request: ConstructionRequest) -> Constructed:
    """Tasks in the native format, strategies, what was rejected with its reason, and a sheet for people."""
    from asyncio import gather  # not above: a command that only names benchmarks starts without it

    problems = request.staged.problems
    written = gather(*(verified_pairs(FunctionTask(request, problem)) for problem in problems))
    strategies, verified = await gather(_strategies(request), written)
    made = list(zip(problems, verified, strict=True))
    rejected = [rejected_row(problem, fault) for problem, one in made for fault in one.rejected]
    files = {
        TASKS: "".join(
            f"{json.dumps(_row(n, *one), ensure_ascii=False)}\n"
            for n, one in enumerate(made, 1)
            if one[1].order
        ),
        STRATEGY_LIST: json.dumps(strategies, indent=1, ensure_ascii=False) + "\n",
        REJECTED: json.dumps(rejected, indent=1, ensure_ascii=False) + "\n",
    }
    return Constructed(files, review(made))


async def _strategies(request: ConstructionRequest) -> list[dict[str, object]]:
    """What a model says of the chosen comments, those of one name together, the most frequent first."""
    comments = comments_of(request.staged)
    if request.embedder is None:
        raise ConfigError(
            "comments are chosen by their vectors: name an embedder by --embedder SPEC"
        )
    vectors = await request.embedder.find(comments)
    known = [comment for comment in comments if comment in vectors]
    chosen = [
        known[n]
        for n in k_centres([vectors[text] for text in known], int(request.options[SELECTED]))
    ]
    from asyncio import gather  # not above: a command that only names benchmarks starts without it

    said = await gather(*(_strategy(request, n, comment) for n, comment in enumerate(chosen)))
    names = Counter(one["strategy"] for one in said if one)
    kept: list[dict[str, object]] = []
    for name, n in sorted(names.items(), key=lambda item: (-item[1], item[0])):
        of_name = [
            (comment, one)
            for comment, one in zip(chosen, said, strict=True)
            if one and one["strategy"] == name
        ]
        verifiable = sum(one["verifiable"] == "true" for _, one in of_name)
        examples = [comment for comment, _ in of_name]
        demand = of_name[0][1]["demand"]
        kept.append(
            {
                "strategy": name,
                "demand": demand,
                "n": n,
                "n_verifiable": verifiable,
                "comments": examples,
            }
        )
    unread = [comment for comment, one in zip(chosen, said, strict=True) if one is None]
    return [*kept, *([{"strategy": None, "comments": unread}] if unread else [])]


async def _strategy(request: ConstructionRequest, n: int, comment: str) -> dict[str, str] | None:
    """Name and demand of the strategy behind a comment; None where the answer cannot be read."""
    asked = Message(Speaker.USER, fill(PROMPTS["extract_strategy"], comment=comment))
    answer = await request.models["model"].complete(
        request.question("model", asked, problem_id=f"comment/{n}")
    )
    begin, end = answer.content.find("{"), answer.content.rfind("}")
    try:
        read = parse_object(answer.content[begin : end + 1].encode("utf-8", "surrogatepass"))
        name, demand = " ".join(str(read["strategy"]).split()).title(), str(read["demand"]).strip()
        return (
            {
                "strategy": name,
                "demand": demand,
                "verifiable": str(read["verifiable"] is True).lower(),
            }
            if name
            else None
        )
    except (ValueError, KeyError, TypeError):
        return None


def rejected_row(problem: Problem, fault: Rejected) -> Mapping[str, str | int]:
    """Return a row of the file of rejected pairs."""
    said = {"reason": fault.reason, "detail": fault.detail, "n_answers": fault.n_answers}
    return {"task_id": problem.problem_id, "strategy": fault.strategy, **said}


def _row(number: int, problem: Problem, made: Verified) -> Mapping[str, object]:
    """The task in the native format. A pair that conflicts stays among the requirements and is in no turn."""
    return {
        "prompt": problem.prompt,
        "test": list(problem.instruction(BASE_INSTRUCTION).suite.tests),
        "code": problem.reference_code,
        "task_id": int(problem.problem_id.rpartition("/")[2])
        if problem.problem_id.startswith("function/")
        else number,
        "requirements": {
            pair.strategy: {
                "requirement": pair.written.requirement,
                "unit_test": list(pair.written.unit_test),
            }
            for pair in made.pairs
        },
        "multi-turn": list(made.order),
    }


def review(made: Sequence[tuple[Problem, Verified]]) -> Review:
    """Return the sheet for the annotators."""
    rows = [_review_row(problem, pair) for problem, one in made for pair in one.pairs]
    return Review((*_COLUMNS, *_SHOWN), rows, SCALES)


def _review_row(problem: Problem, pair: Pair) -> Sequence[Cell]:
    """One pair to rate. Its id holds all that people read, so that ratings stay with what was rated."""
    written = pair.written
    shown = (problem.prompt, written.requirement, "\n".join(written.unit_test), written.solution)
    name = content_id([problem.problem_id, pair.strategy, *shown])
    empty: tuple[Cell, ...] = (None,) * len(CRITERIA)
    return (
        f"review-{name}",
        RUBRIC,
        None,
        *empty,
        problem.problem_id,
        pair.strategy,
        pair.is_vacuous,
        *shown,
    )


_SELECTED = Option(
    name=SELECTED,
    values=("2", "5", "10", "20", "50", "100", "200", "500"),
    default="500",
    affects="episode",
    help="review comments that strategies are drawn from, at most",
)
CONSTRUCTION = Construction(
    help="tasks with verified instructions from base tasks, and strategies from review comments (review_comments*.jsonl)",
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
