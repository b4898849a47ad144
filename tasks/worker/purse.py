"""Holds requests to the caps of their invocation: none is sent once a cap is met, and each answer is counted."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schemas.embedding import EmbedderIdentity
from schemas.errors import BudgetSpent
from schemas.night.budget import Budget, CapSpent, why_stopped
from schemas.night.cost import Price, tokens_usd
from schemas.run import ModelIdentity
from tasks.language.asking import REFUSED
from tasks.language.chat_model import ChatModel, ChatRequest, Completion
from tasks.language.embedding import EndpointEmbedder
from tasks.storage.ledger import Ledger, Sum, Totals, ledger_at

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

_CHARACTERS_PER_TOKEN = 4
"""Of an answer that its endpoint did not count."""
Payee = ModelIdentity | EmbedderIdentity


@dataclass(frozen=True)
class Purse:
    """One run's share in an invocation's budget. It pickles; all processes count in one folder.

    Attributes:
        folder: the invocation's ledger.
        began_at: when the invocation did, seconds since the epoch.
        prices: of tokens, where they are known.
    """

    folder: str
    budget: Budget
    began_at: float
    run_id: str
    prices: Mapping[Payee, Price] = field(default_factory=dict[Payee, Price])

    @property
    def ledger(self) -> Ledger:
        """Where all processes count."""
        return ledger_at(self.folder)

    def spent(self) -> tuple[CapSpent, ...]:
        """Each cap with what is spent of it now."""
        return caps_spent(self.budget, self.ledger.totals(), time.time() - self.began_at)

    def check(self) -> None:
        """Raise BudgetSpent where a cap is met. To be called before a request."""
        met = [one for one in self.spent() if one.is_met]
        if met:
            raise BudgetSpent(why_stopped(met))

    @property
    def is_over(self) -> bool:
        """Whether a cap is met."""
        return any(one.is_met for one in self.spent())

    @property
    def is_late(self) -> bool:
        """Whether the cap on time is met: programs cost nothing but time."""
        limit = self.budget.wall_hours
        return limit is not None and time.time() - self.began_at >= limit * 3600

    def charge(self, identity: ModelIdentity, request: ChatRequest, answer: Completion) -> None:
        """Count an answer. Answers of recordings and controls cost nothing, and a refusal by an error has no tokens."""
        if answer.finish_reason in REFUSED and answer.input_tokens is None and not answer.content:
            self.ledger.add(self.run_id, Sum(calls=answer.n_calls))
        elif answer.n_calls:
            shown = sum(len(message.content) for message in request.messages)
            written = len(answer.content) + len(answer.reasoning)  # vendors bill thoughts as output
            self._count(
                identity,
                answer.n_calls,
                (answer.input_tokens, answer.output_tokens),
                (shown, written),
            )

    def charge_texts(
        self, identity: EmbedderIdentity, texts: Sequence[str], tokens: int | None
    ) -> None:
        """Count texts that were embedded."""
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
        told_in, told_out = counted
        if told_in is None or told_out is None:
            n_in, n_out = (-(-n // _CHARACTERS_PER_TOKEN) for n in characters)
            amount = Sum(calls=calls, estimated_tokens=n_in + n_out, n_estimated=1)
        else:
            n_in, n_out = told_in, told_out
            amount = Sum(calls=calls, input_tokens=n_in, output_tokens=n_out)
        usd = tokens_usd(self.prices.get(identity, (0.0, 0.0)), n_in, n_out)
        self.ledger.add(self.run_id, amount + Sum(usd=usd), to_run=of_dialogue)


def caps_spent(budget: Budget, totals: Totals, elapsed_s: float) -> tuple[CapSpent, ...]:
    """What is spent of each cap."""
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
class MeteredModel:
    """A model that is asked for nothing once a cap is met; each answer counts. See `tasks.language.chat_model.ChatModel`."""

    model: ChatModel
    purse: Purse
    asks_anyway: bool = False
    """Leave the look at the caps to the caller: what takes several requests is begun or not, as a whole."""

    @property
    def identity(self) -> ModelIdentity:
        return self.model.identity

    async def complete(self, request: ChatRequest) -> Completion:
        """See `ChatModel.complete`.

        Raises:
            BudgetSpent: a cap is met; nothing was sent.
        """
        if not self.asks_anyway:
            self.purse.check()
        answer = await self.model.complete(request)
        self.purse.charge(self.identity, request, answer)
        return answer

    async def aclose(self) -> None:
        await self.model.aclose()


def metered(model: ChatModel, purse: Purse | None, *, asks_anyway: bool = False) -> ChatModel:
    """The model, held to the caps if there are any."""
    return model if purse is None else MeteredModel(model, purse, asks_anyway)


class MeteredEmbedder:
    """An embedder that is asked for nothing once a cap is met; each text counts. See `tasks.language.embedding.Embedder`."""

    def __init__(self, embedder: EndpointEmbedder, purse: Purse) -> None:
        self.identity, self._embedder, self._purse = embedder.identity, embedder, purse
        embedder.on_answer = lambda texts, tokens: purse.charge_texts(self.identity, texts, tokens)

    async def embed(self, texts: Sequence[str]) -> "list[Vector | None]":
        """See `Embedder`.

        Raises:
            BudgetSpent: a cap is met; nothing was sent.
        """
        self._purse.check()
        return await self._embedder.embed(texts)

    async def aclose(self) -> None:
        await self._embedder.aclose()
