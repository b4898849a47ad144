"""Vectors of the texts that a run's scores compare. Each text is embedded once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING

from schemas.episode import Episode
from schemas.errors import BudgetSpent, ParleyError
from schemas.run import EmbedderIdentity
from tasks.benchmarks.contract import Played, ScoreRequest
from tasks.language.access import ModelAccess
from tasks.language.embedding import EndpointEmbedder
from tasks.planning.plan import RunPlan
from tasks.stage import Ahead
from tasks.storage.ledger import SendLog
from tasks.storage.staged_rows import context_of
from tasks.storage.vectors import Vectors
from tasks.worker.budget_meter import BudgetMeter, MeteredEmbedder

if TYPE_CHECKING:
    from tasks.language.embedding import Vector


@asynccontextmanager
async def opened_vectors(
    plan: RunPlan,
    find_access: Callable[[], ModelAccess[EmbedderIdentity]],
    budget_meter: BudgetMeter | None,
) -> AsyncIterator[Vectors]:
    """Open the store of the run's vectors for the block."""
    assert plan.spec.embedder is not None
    sends = SendLog(plan.home.sends(plan.run_id))
    embedder = EndpointEmbedder(plan.spec.embedder, find_access, on_send=sends.count_embedder)
    vectors = Vectors(
        plan.lake, MeteredEmbedder(embedder, budget_meter) if budget_meter else embedder
    )
    try:
        yield vectors
    finally:
        await vectors.aclose()
        sends.close()


class EmbedAhead(Ahead):
    """Embedding of finished dialogues in a separate thread.

    An error in the block also cancels requests in flight.
    """

    def __init__(
        self,
        plan: RunPlan,
        find_access: Callable[[], ModelAccess[EmbedderIdentity]],
        budget_meter: BudgetMeter | None,
    ) -> None:
        super().__init__(plan, None)
        self._open, self._runner = opened_vectors(plan, find_access, budget_meter), asyncio.Runner()
        self._members = {member.episode_id: member for member in plan.members}
        self._embedded = set[str]()
        self._finding: asyncio.Task[object] | None = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and self._finding is not None:
            with suppress(RuntimeError):  # A fault has ended the thread's event loop.
                self._finding.get_loop().call_soon_threadsafe(self._finding.cancel)
        super().__exit__(kind, error, trace)

    def begin(self, work: str) -> None:
        """Embed the texts of a part's finished episodes, and wait for the vectors."""
        texts_of = self.plan.benchmark.scores.texts_to_embed
        played = [
            episode
            for episode in self.episodes(work)
            if episode.is_final and episode.episode_id in self._members
        ]
        texts = {
            text for episode in played if texts_of for text in texts_of(self._request(episode))
        } - self._embedded
        self._embedded |= texts
        self._runner.run(self._find(sorted(texts)))

    def _go_on(self) -> None:
        with suppress(ParleyError, OSError, asyncio.CancelledError), self._runner:
            self._vectors = self._runner.run(self._open.__aenter__())
            try:
                super()._go_on()
            finally:
                self._runner.run(self._open.__aexit__(None, None, None))

    async def _find(self, texts: Sequence[str]) -> None:
        self._finding = asyncio.current_task()
        await self._vectors.find(texts)

    def _request(self, episode: Episode) -> ScoreRequest:
        plan, dialog = self.plan, self.plan.dialog(self._members[episode.episode_id])
        played = Played(dialog, episode, (), (), context_of(plan.lake, dialog))
        problem = plan.problems[dialog.problem_id]
        return ScoreRequest(
            problem, episode.sample, plan.run_id, plan.spec.setting, plan.options, (played,)
        )


def embed(
    plan: RunPlan,
    requests: Sequence[ScoreRequest],
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
