"""Budget meter: counts each answer, and stops requests once a cap of the invocation is reached."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schemas.errors import BudgetSpent
from schemas.night.budget import Budget, CapSpent, why_stopped
from schemas.night.cost import Price, tokens_usd
from schemas.run import EmbedderIdentity, ModelIdentity
from tasks.language.chat_model import ChatModel, ChatRequest, Completion, WrappedModel
from tasks.language.embedding import EndpointEmbedder
from tasks.storage.ledger import Ledger, Sum, Totals, ledger_at

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

_CHARACTERS_PER_TOKEN = 4
"""Assumed characters per token, for answers whose tokens the endpoint did not count."""
Payee = ModelIdentity | EmbedderIdentity


@dataclass(frozen=True)
class BudgetMeter:
    """Budget meter of one run. It can be pickled, and all processes count in one ledger folder.

    Attributes:
        folder: Folder of the invocation's ledger.
        budget: Caps of the invocation.
        began_at: Start of the invocation, seconds since the epoch.
        run_id: Id of the run.
        prices: Token prices, as far as they are known.
    """

    folder: str
    budget: Budget
    began_at: float
    run_id: str
    prices: Mapping[Payee, Price] = field(default_factory=dict[Payee, Price])

    @property
    def ledger(self) -> Ledger:
        """Return this process's view of the ledger that all processes share."""
        return ledger_at(self.folder)

    def spent(self) -> tuple[CapSpent, ...]:
        """Return the amount spent so far, and the limit, of each cap."""
        return caps_spent(self.budget, self.ledger.totals(), time.time() - self.began_at)

    def check(self) -> None:
        """Raise BudgetSpent if a cap is reached. Call this before each request."""
        reached = [cap for cap in self.spent() if cap.is_met]
        if reached:
            raise BudgetSpent(why_stopped(reached))

    @property
    def is_over(self) -> bool:
        """Return True if a cap is reached."""
        return any(cap.is_met for cap in self.spent())

    @property
    def is_late(self) -> bool:
        """Return True if the cap on time is reached, the only cap that applies to programs."""
        limit = self.budget.wall_hours
        return limit is not None and time.time() - self.began_at >= limit * 3600

    def charge(self, identity: ModelIdentity, request: ChatRequest, answer: Completion) -> None:
        """Count an answer. Recordings and controls cost nothing."""
        if answer.n_calls:
            shown = sum(len(message.content) for message in request.messages)
            # vendors bill reasoning as output
            written = len(answer.content) + len(answer.reasoning)
            self._count(
                identity,
                answer.n_calls,
                (answer.input_tokens, answer.output_tokens),
                (shown, written),
            )

    def charge_texts(
        self, identity: EmbedderIdentity, texts: Sequence[str], tokens: int | None
    ) -> None:
        """Count embedded texts."""
        self._count(identity, 1, (tokens, 0), (sum(map(len, texts)), 0), of_dialogue=False)

    def _count(
        self,
        identity: Payee,
        calls: int,
        counted: tuple[int | None, int | None],
        characters: tuple[int, int],
        *,
        of_dialogue: bool = True,
    ) -> None:
        counted_in, counted_out = counted
        if counted_in is None or counted_out is None:
            n_in, n_out = (-(-n // _CHARACTERS_PER_TOKEN) for n in characters)
            amount = Sum(calls=calls, estimated_tokens=n_in + n_out, n_estimated=1)
        else:
            n_in, n_out = counted_in, counted_out
            amount = Sum(calls=calls, input_tokens=n_in, output_tokens=n_out)
        usd = tokens_usd(self.prices.get(identity, (0.0, 0.0)), n_in, n_out)
        self.ledger.add(self.run_id, amount + Sum(usd=usd), to_run=of_dialogue)


def caps_spent(budget: Budget, totals: Totals, elapsed_s: float) -> tuple[CapSpent, ...]:
    """Return the amount spent of each cap."""
    of_all = {
        "tokens": float(totals.answers.tokens),
        "usd": totals.usd,
        "gpu_hours": totals.gpu_hours,
        "wall_hours": elapsed_s / 3600,
    }
    return tuple(
        CapSpent(
            cap=name,  # type: ignore[arg-type]  (one of the names of `caps`)
            allowed=limit,
            spent=of_all[name],
            is_met=of_all[name] >= limit,
            n_estimated=totals.answers.n_estimated if name in ("tokens", "usd") else 0,
        )
        for name, limit in budget.caps.items()
    )


@dataclass(frozen=True)
class MeteredModel(WrappedModel):
    """Model that sends no request once a cap is reached, and counts each answer.

    See `ChatModel`.
    """

    budget_meter: BudgetMeter
    asks_anyway: bool = False
    """True skips the check of the caps.

    The caller then checks once before each group of requests that belong together.
    """

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request. See `ChatModel.complete`.

        Raises:
            BudgetSpent: A cap is reached. Nothing was sent.
        """
        if not self.asks_anyway:
            self.budget_meter.check()
        answer = await self.model.complete(request)
        self.budget_meter.charge(self.identity, request, answer)
        return answer


def metered(
    model: ChatModel, budget_meter: BudgetMeter | None, *, asks_anyway: bool = False
) -> ChatModel:
    """Return the model with the caps of the budget enforced; the model itself without a meter."""
    return model if budget_meter is None else MeteredModel(model, budget_meter, asks_anyway)


class MeteredEmbedder:
    """Embedder that sends no request once a cap is reached, and counts each text.

    See `Embedder`.
    """

    def __init__(self, embedder: EndpointEmbedder, budget_meter: BudgetMeter) -> None:
        self.identity, self._embedder, self._budget_meter = (
            embedder.identity,
            embedder,
            budget_meter,
        )
        embedder.on_answer = lambda texts, tokens: budget_meter.charge_texts(
            self.identity, texts, tokens
        )

    async def embed(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Embed texts. See `Embedder.embed`.

        Raises:
            BudgetSpent: A cap is reached. Nothing was sent.
        """
        self._budget_meter.check()
        return await self._embedder.embed(texts)

    async def aclose(self) -> None:
        """Close the embedder."""
        await self._embedder.aclose()
