"""`parley build dialogue_swebench-queries`: first messages from issues, and a sheet to review them.

See section 3.3 and appendix A of the paper.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.dialog import Role as Speaker
from schemas.problem import Problem
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
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.dialogue_swebench.stage import QUERIES
from tasks.benchmarks.setting import Options
from tasks.judging.rubric import RatingScale
from tasks.language.chat_model import (
    ChatRequest,
    Message,
    Unreadable,
    ask_until_read,
    with_follow_up,
)
from tasks.language.prompt import PromptTexts, fill

PROMPTS = PromptTexts("tasks.benchmarks.dialogue_swebench", ("query_draft", "query_revision"))
DRAFTS = "drafts.json"
"""File with the drafts, their revisions, and the share of changed drafts. Staging ignores it."""
RUBRIC = "dialogue_swebench.query"
CRITERIA = ("faithful", "incomplete", "asks_to_resolve", "needs_edit")
"""Criteria of people's ratings of a message, 0 or 1 each.

The mean of `needs_edit` is the share of messages that needed edits.
"""
SCALES: Mapping[str, RatingScale] = dict.fromkeys(CRITERIA, RatingScale((0, 1)))
_SHOWN = ("instance", "title", "issue", "draft", "query")
_MOST_WORDS, _TRIES = 60, 3


@dataclass(frozen=True)
class _Query:
    problem: Problem
    draft: str
    text: str

    @property
    def title(self) -> str:
        return self.problem.instructions[0].text


def estimate(*, staged: Staged, options: Options) -> Mapping[str, int]:
    """Return the number of model calls: two for each issue."""
    return {"model": 2 * len(staged.problems)}


async def construct(request: ConstructionRequest) -> Constructed:
    """Return the file of first messages that staging reads, the drafts, and the review sheet."""
    results = await asyncio.gather(
        *(_query(request, problem) for problem in request.staged.problems)
    )
    queries = [result for result in results if isinstance(result, _Query)]
    unwritten = [result for result in results if not isinstance(result, _Query)]
    n_changed = sum(query.draft != query.text for query in queries)
    drafts = {
        "n": len(queries),
        "n_changed_by_revision": n_changed,
        "share_changed_by_revision": n_changed / len(queries) if queries else None,
        "unwritten": unwritten,
        "drafts": [
            {"instance_id": query.problem.problem_id, "draft": query.draft, "query": query.text}
            for query in queries
        ],
    }
    lines = [{"instance_id": query.problem.problem_id, "query": query.text} for query in queries]
    files = {
        QUERIES: jsonl_file(lines),
        DRAFTS: json_file(drafts),
    }
    rows = (_review_row(query) for query in queries)
    return Constructed(files, Review.rated(RUBRIC, SCALES, _SHOWN, rows))


async def _query(request: ConstructionRequest, problem: Problem) -> _Query | Mapping[str, str]:
    """Return the message of an issue, or the reason why a model wrote no usable one.

    The first request shows only the title. The second one revises the draft and shows the issue.
    """
    assert problem.repo is not None
    project, title = problem.repo.repo.rpartition("/")[2], problem.instructions[0].text
    first = fill(PROMPTS["query_draft"], project=project, title=title, words=str(_MOST_WORDS))
    draft = await _request_message(request, problem, first, 0)
    if isinstance(draft, Unreadable):
        return {"instance_id": problem.problem_id, "reason": str(draft)}
    second = fill(
        PROMPTS["query_revision"],
        project=project,
        issue=problem.prompt,
        draft=draft,
        words=str(_MOST_WORDS),
    )
    revised = await _request_message(request, problem, second, 1)
    if isinstance(revised, Unreadable):
        return {"instance_id": problem.problem_id, "reason": str(revised)}
    return _Query(problem, draft, revised)


async def _request_message(
    request: ConstructionRequest, problem: Problem, prompt: str, number: int
) -> str | Unreadable:
    question: ChatRequest = request.question(
        "model", Message(Speaker.USER, prompt), problem_id=problem.problem_id, turn=number + 1
    )

    def again(answer: str, reason: str) -> tuple[Message, ...]:
        return with_follow_up(
            question.messages, answer, f"That cannot be used: {reason}. Write it again."
        )

    result = await ask_until_read(
        request.models["model"], question, again, _read_message, tries=_TRIES
    )
    return result.value if result.value is not None else Unreadable(result.reason)


def _read_message(answer: str) -> str:
    """Return the answer as a message of one line. Raises Unreadable."""
    text = " ".join(answer.strip().strip('"').split())
    if not text:
        raise Unreadable("it is empty")
    if len(text.split()) > _MOST_WORDS:
        raise Unreadable(f"it has {len(text.split())} words; {_MOST_WORDS} are allowed")
    return text


def _review_row(query: _Query) -> tuple[object, Sequence[Cell]]:
    name = query.problem.problem_id
    return [name, query.text], (name, query.title, query.problem.prompt, query.draft, query.text)


CONSTRUCTION = Construction(
    help="users' first messages from issue titles, revised to be faithful but incomplete",
    roles={"model": Role("writes and revises the messages", Sampling(max_tokens=200))},
    construct=construct,
    estimate=estimate,
    prompts=PROMPTS,
)
