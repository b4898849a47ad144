"""Budget of one invocation, in the driver: prices, the amount spent, and which caps are reached."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from schemas.errors import ConfigError
from schemas.night.budget import Budget, CapSpent, why_stopped
from schemas.night.cost import Price
from tasks.planning.participants.models import token_price
from tasks.planning.plan import RunPlan
from tasks.planning.request import ModelRequest
from tasks.storage.ledger import Ledger, ledger_at
from tasks.worker.budget_meter import BudgetMeter, Payee, caps_spent


@dataclass(frozen=True)
class Spending:
    """Caps of an invocation, and the ledger in which all its processes record what they spend."""

    budget: Budget
    folder: str
    began_at: float

    @property
    def ledger(self) -> Ledger:
        """Return the ledger that all processes share."""
        return ledger_at(self.folder)

    def budget_meter(self, plan: RunPlan) -> BudgetMeter:
        """Return the budget meter of the run's models and embedder."""
        prices: dict[Payee, Price] = {
            model.identity: price
            for model in plan.models
            if (price := token_price(plan.lake, model)) is not None
        }
        embedder = plan.request.embedder
        if plan.spec.embedder is not None and embedder is not None:
            prices[plan.spec.embedder] = embedder.usd_per_million_input or 0.0, 0.0
        return BudgetMeter(self.folder, self.budget, self.began_at, plan.run_id, prices)

    def build_budget_meter(self, build_id: str) -> BudgetMeter:
        """Return the budget meter of a dataset build's models."""
        return BudgetMeter(self.folder, self.budget, self.began_at, build_id)

    def account(self) -> tuple[CapSpent, ...]:
        """Return the amount used of each cap so far."""
        return caps_spent(self.budget, self.ledger.totals(), time.time() - self.began_at)

    def why_over(self) -> str | None:
        """Return a line about the caps that are reached, or None if there are none."""
        met = [cap for cap in self.account() if cap.is_met]
        return why_stopped(met) if met else None

    @contextmanager
    def server(self, request: ModelRequest) -> Iterator[None]:
        """Count the hours of a model server, which Parley started, during the block."""
        name = self.ledger.server_started(request.n_gpus or 0.0, request.usd_per_hour or 0.0)
        try:
            yield
        finally:
            self.ledger.server_ended(name)


def require_prices(plans: Iterable[RunPlan], budget: Budget | None) -> None:
    """Reject a cap that cannot be enforced.

    Raises:
        ConfigError: There is a cap on money and a model without a price, or a cap on GPU hours
            and a model without a stated number of GPUs.
    """
    caps = budget.caps if budget else {}
    for plan in plans:
        if "usd" in caps:
            _require_known_prices(plan, caps["usd"])
        if "gpu_hours" in caps:
            _require_known_gpus(plan, caps["gpu_hours"])


def _require_known_prices(plan: RunPlan, limit: float) -> None:
    for model in plan.models:
        if token_price(plan.lake, model) is None:
            by_hour = " or usd_per_hour (--usd-per-hour)" if model.request.is_served_here else ""
            raise ConfigError(
                f"the cap usd={limit:.10g} cannot be enforced: model {model.identity.label} has no"
                " price. Set usd_per_million_input and usd_per_million_output"
                f" (--price IN OUT; --simulator-price, --judge-price){by_hour}, to 0 if it costs"
                " nothing. Or cap tokens or wall_hours instead"
            )
    embedder = plan.request.embedder if plan.spec.embedder else None
    if (
        embedder is not None
        and embedder.usd_per_million_input is None
        and embedder.usd_per_hour is None
    ):
        raise ConfigError(
            f"the cap usd={limit:.10g} cannot be enforced: embedder {embedder.spec} has no price."
            " Set usd_per_million_input (--embedder-price IN), to 0 if it costs nothing."
            " Or cap tokens or wall_hours instead"
        )


def _require_known_gpus(plan: RunPlan, limit: float) -> None:
    for model in plan.models:
        if model.request.is_served_here and model.request.n_gpus is None:
            raise ConfigError(
                f"the cap gpu_hours={limit:.10g} cannot be enforced: the number of GPUs of"
                f" the server of model {model.identity.label} is unknown. Set gpus (--gpus N;"
                " `gpus` in a night's configuration), to 0 if it runs on CPUs"
            )
