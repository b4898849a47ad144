"""Prefect task: vectors of the texts that a run's scores compare. Each text is embedded once."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from prefect import task

from schemas.errors import BudgetSpent
from schemas.run import EmbedderIdentity
from tasks.benchmarks.contract import ScoreRequest
from tasks.cache_policy import OPTIONS
from tasks.driver.embed_ahead import opened_vectors
from tasks.language.access import ModelAccess
from tasks.planning.plan import RunPlan
from tasks.worker.budget_meter import BudgetMeter

if TYPE_CHECKING:
    from tasks.language.embedding import Vector


@task(name="embed", task_run_name="embed {title}", **OPTIONS)
def embed(
    plan: RunPlan,
    requests: Sequence[ScoreRequest],
    title: str,
    find_access: Callable[[], ModelAccess[EmbedderIdentity]],
    budget_meter: BudgetMeter | None = None,
) -> "Mapping[str, Vector] | None":
    """Return the vectors of all texts that the benchmark names, or None after a budget cap.

    Args:
        requests: Requests whose scores are computed later.
        find_access: Called if a text has no stored vector. It may start the embedder's server.
        budget_meter: Meter that enforces the budget caps of the invocation; None without caps.

    Raises:
        ModelUnavailable: The embedder does not answer. All its answers are stored.
    """
    wanted = plan.benchmark.scores.texts_to_embed
    assert wanted is not None
    texts = tuple(dict.fromkeys(text for request in requests for text in wanted(request)))

    async def find() -> "Mapping[str, Vector]":
        async with opened_vectors(plan, find_access, budget_meter) as vectors:
            return await vectors.find(texts)

    with suppress(BudgetSpent):
        return asyncio.run(find())
    return None
