"""What one invocation may spend, in the driver: who may pay from it, what was spent, and whether a cap is met."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from schemas.errors import ConfigError
from schemas.night.budget import Budget, CapSpent, why_stopped
from schemas.night.cost import Price
from schemas.run import ModelIdentity
from tasks.language.providers.registry import PROVIDERS
from tasks.planning.participants.models import price_of
from tasks.planning.plan import RunPlan
from tasks.planning.request import ModelRequest
from tasks.storage.ledger import Ledger, ledger_at
from tasks.worker.purse import Payee, Purse, caps_spent


@dataclass(frozen=True)
class Spending:
    """The caps of an invocation, and the ledger that all its processes count in."""

    budget: Budget
    folder: str
    began_at: float

    @property
    def ledger(self) -> Ledger:
        """Where all processes count."""
        return ledger_at(self.folder)

    def purse(self, plan: RunPlan) -> Purse:
        """What the run's models and embedder are paid from."""
        known: dict[Payee, Price] = {
            identity: price
            for identity, _, asked in plan.models
            if (price := token_price(plan, identity, asked)) is not None
        }
        embedder = plan.request.embedder
        if plan.spec.embedder is not None and embedder is not None:
            known[plan.spec.embedder] = embedder.usd_per_million_input or 0.0, 0.0
        return Purse(self.folder, self.budget, self.began_at, plan.run_id, known)

    def build_purse(self, build_id: str) -> Purse:
        """What a construction's models are paid from."""
        return Purse(self.folder, self.budget, self.began_at, build_id)

    def account(self) -> tuple[CapSpent, ...]:
        """What is spent of each cap so far."""
        return caps_spent(self.budget, self.ledger.totals(), time.time() - self.began_at)

    def why_over(self) -> str | None:
        """Which caps are met; None where none is."""
        met = [one for one in self.account() if one.is_met]
        return why_stopped(met) if met else None

    @contextmanager
    def server(self, asked: ModelRequest) -> Iterator[None]:
        """Count the hours of a model server of ours, from its start in this block to its end."""
        name = self.ledger.server_started(asked.n_gpus or 0.0, asked.usd_per_hour or 0.0)
        try:
            yield
        finally:
            self.ledger.server_ended(name)


def stated_price(plan: RunPlan, identity: ModelIdentity, asked: ModelRequest) -> Price | None:
    """Return the price of tokens, stated now or before; 0 for controls and recordings. None where nobody stated one."""
    price = price_of(plan, identity, asked)
    return (
        (0.0, 0.0) if price is None and PROVIDERS.load(identity.provider).knows_answers else price
    )


def token_price(plan: RunPlan, identity: ModelIdentity, asked: ModelRequest) -> Price | None:
    """Return what a cap counts for tokens: their price, 0 for a model of ours that costs by the hour alone."""
    price = stated_price(plan, identity, asked)
    return (0.0, 0.0) if price is None and asked.usd_per_hour is not None else price


def player_prices(plan: RunPlan) -> tuple[Price | None, ...]:
    """USD per million tokens of the subject, then of the simulator where there is one; empty where nothing is paid by tokens."""
    known = {identity: token_price(plan, identity, asked) for identity, _, asked in plan.models}
    players = (player for player in (plan.spec.subject, plan.spec.simulator) if player is not None)
    prices = tuple(known.get(player) for player in players)
    return prices if any(price != (0.0, 0.0) for price in prices) else ()


def sends_nothing(identity: ModelIdentity, asked: ModelRequest) -> bool:
    """Whether a model is a control or a recording without a stated price: it is sent no requests."""
    is_free = PROVIDERS.load(identity.provider).knows_answers
    return is_free and asked.usd_per_million_input is None and asked.usd_per_million_output is None


def require_prices(plans: Iterable[RunPlan], budget: Budget | None) -> None:
    """Refuse a cap that nobody can keep.

    Raises:
        ConfigError: a cap on money, and a model without a price; or one on GPU hours, and a model whose GPUs nobody stated.
    """
    caps = budget.caps if budget else {}
    for plan in plans:
        if "usd" in caps:
            _require_known_prices(plan, caps["usd"])
        if "gpu_hours" in caps:
            _require_known_gpus(plan, caps["gpu_hours"])


def _require_known_prices(plan: RunPlan, limit: float) -> None:
    for identity, _, asked in plan.models:
        if token_price(plan, identity, asked) is None:
            by_hour = " or usd_per_hour (--usd-per-hour)" if asked.is_served_here else ""
            raise ConfigError(
                f"the cap usd={limit:.10g} cannot be kept: model {identity.label} has no price. State usd_per_million_input and"
                f" usd_per_million_output (--price IN OUT; --simulator-price, --judge-price){by_hour}, 0 where it costs nothing;"
                " or cap tokens or wall_hours instead"
            )
    embedder = plan.request.embedder if plan.spec.embedder else None
    if (
        embedder is not None
        and embedder.usd_per_million_input is None
        and embedder.usd_per_hour is None
    ):
        raise ConfigError(
            f"the cap usd={limit:.10g} cannot be kept: embedder {embedder.spec} has no price. State usd_per_million_input"
            " (--embedder-price IN), 0 where it costs nothing; or cap tokens or wall_hours instead"
        )


def _require_known_gpus(plan: RunPlan, limit: float) -> None:
    for identity, _, asked in plan.models:
        if asked.is_served_here and asked.n_gpus is None:
            raise ConfigError(
                f"the cap gpu_hours={limit:.10g} cannot be kept: nobody stated how many GPUs the server of model {identity.label}"
                " holds. State gpus (--gpus N; `gpus` in a night's configuration), 0 where it runs on processors"
            )
