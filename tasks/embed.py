"""Prefect task: vectors of the texts that a run's scores compare. In the driver, each text asked for once and kept."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from prefect import task

from schemas.embedding import EmbedderIdentity
from schemas.errors import BudgetSpent
from tasks.benchmarks.scores import ScoreRequest
from tasks.cache_policy import OPTIONS
from tasks.language.embedding import EmbedderAccess, open_embedder
from tasks.planning.plan import RunPlan
from tasks.storage.sends import SendLog
from tasks.storage.vectors import Vectors
from tasks.worker.purse import MeteredEmbedder, Purse

if TYPE_CHECKING:
    from tasks.language.embedding import Vector


@task(name="embed", task_run_name="embed {title}", **OPTIONS)
def embed(
    plan: RunPlan,
    requests: Sequence[ScoreRequest],
    title: str,
    find_access: Callable[[], EmbedderAccess],
    purse: Purse | None = None,
) -> "Mapping[str, Vector] | None":
    """Text -> vector, for all texts that the benchmark names. None where a cap of the budget stopped it.

    Args:
        requests: whose scores are to be computed.
        find_access: is called where a text has no kept vector; it may start the embedder's server.
        purse: the caps of the invocation.

    Raises:
        ModelUnavailable: the embedder does not answer. All its answers are kept.
    """
    wanted, identity = plan.benchmark.scores.texts_to_embed, plan.spec.embedder
    assert wanted is not None
    assert identity is not None
    texts = dict.fromkeys(text for request in requests for text in wanted(request))
    with suppress(BudgetSpent):
        return asyncio.run(_find(plan, identity, tuple(texts), find_access, purse))
    return None


async def _find(
    plan: RunPlan,
    identity: EmbedderIdentity,
    texts: Sequence[str],
    find_access: Callable[[], EmbedderAccess],
    purse: Purse | None,
) -> "Mapping[str, Vector]":
    sends = SendLog(plan.home.sends(plan.run_id))
    embedder = open_embedder(identity, find_access, on_send=sends.count_embedder)
    vectors = Vectors(plan.lake, MeteredEmbedder(embedder, purse) if purse else embedder)
    try:
        return await vectors.find(texts)
    finally:
        await vectors.aclose()
        sends.close()
