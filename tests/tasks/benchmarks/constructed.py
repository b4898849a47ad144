"""A benchmark whose questions are made: a model writes pairs on each topic, a program tries the
answer, a judge rates it.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Role as Speaker
from schemas.problem import Problem
from schemas.run import Limits, Sampling
from schemas.verdict import Outcome
from tasks.benchmarks.advanced import (
    Constructed,
    Construction,
    ConstructionRequest,
    Review,
    Role,
)
from tasks.benchmarks.contract import Data, Staged
from tasks.benchmarks.setting import About, Option
from tasks.language.chat_model import Message, Messages, Unreadable, ask_until_read
from tests.tasks.benchmarks import smallest

NAME, FILE = "constructed", "smallest.jsonl"
WRITE = "Write a question on {topic}, number {number}, as JSON with question, test and code."
RATE = "Rate this from 1 to 5, with a number alone: {question}"
Pair = dict[str, str]


def stage(source: Path, dataset_version: str) -> Staged:
    """The smallest benchmark's rows, under this one's name."""
    staged = smallest.stage(source, dataset_version)

    own = {"benchmark": NAME}
    return replace(
        staged,
        dialogs=tuple(dialog.model_copy(update=own) for dialog in staged.dialogs),
        problems=tuple(problem.model_copy(update=own) for problem in staged.problems),
    )


def estimate(*, staged: Staged, options: Mapping[str, str]) -> Mapping[str, int]:
    """One call a pair and role."""
    n = len(staged.problems) * int(options["pairs"])
    return {"model": n, "judge": n}


async def construct(request: ConstructionRequest) -> Constructed:
    """`{"id", "question", "test", "code"}` a line, as `stage` reads it: of pairs whose code passes
    its own test.
    """
    numbers = range(int(request.options["pairs"]))
    made = await asyncio.gather(
        *(_pair(request, problem, n) for problem in request.staged.problems for n in numbers)
    )
    lines = [json.dumps(row | {"id": name}) for name, row, passed, _ in made if passed]
    rows = [(name, row["question"], passed, rating) for name, row, passed, rating in made]
    return Constructed(
        {FILE: "".join(f"{line}\n" for line in lines)},
        Review(("id", "question", "passed", "rating"), rows),
    )


async def _pair(
    request: ConstructionRequest, problem: Problem, number: int
) -> tuple[str, Pair, bool, int | None]:
    asked = Message(Speaker.USER, WRITE.format(topic=problem.problem_id, number=number))
    written = await request.models["model"].complete(
        request.question("model", asked, problem_id=problem.problem_id)
    )
    row: Pair = json.loads(written.content)
    verdict = await request.programs.run("statements", row["code"], (row["test"],))
    rated = request.question("judge", Message(Speaker.USER, RATE.format(question=row["question"])))
    rating = await ask_until_read(request.models["judge"], rated, _again, _number, tries=2)
    return content_id(row)[:12], row, verdict.outcome is Outcome.PASSED, rating.value


def _again(answer: str, reason: str) -> Messages:
    return (
        Message(Speaker.USER, f"{answer!r} cannot be read ({reason}). A number from 1 to 5 alone."),
    )


def _number(answer: str) -> int:
    if answer.strip() not in tuple("12345"):
        raise Unreadable("it is no such number")
    return int(answer)


PAIRS = Construction(
    help="questions with answers on each topic",
    roles={"model": Role("writes pairs", Sampling(temperature=0.7)), "judge": Role("rates them")},
    construct=construct,
    estimate=estimate,
    prompts={"write": WRITE, "rate": RATE},
    options=(Option("pairs", ("2", "3"), "2", "episode", "pairs on each topic"),),
    runs_programs=True,
    limits=Limits(cpu_s=2),
)
BENCHMARK = replace(
    smallest.BENCHMARK,
    about=About(name=NAME, version="1", title="Constructed", paper="none"),
    data=Data(stage=stage, sample=smallest.BENCHMARK.data.sample, versions=("sample", "made")),
    constructions={"pairs": PAIRS},
)
