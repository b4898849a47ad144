"""Chooses, before the first request, the share of the tasks whose estimated cost fits a budget: the same for every model."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flows.night.before.dry_run import Calls, drift_calls, whole_calls
from flows.night.spending import require_prices, token_price
from schemas.errors import ConfigError
from schemas.night.budget import Budget
from schemas.run import ModelIdentity
from tasks.planning.dataset import reading_once
from tasks.planning.plan import RunPlan, plan_run, problem_order
from tasks.planning.request import EvaluationRequest, ModelRequest, Subsample
from tasks.storage.home import Home


@dataclass(frozen=True)
class Cost:
    """Tokens and dollars, estimated."""

    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.tokens + other.tokens, self.usd + other.usd)

    def fits(self, budget: Budget) -> bool:
        """Whether it exceeds no cap."""
        return (budget.tokens is None or self.tokens <= budget.tokens) and (budget.usd is None or self.usd <= budget.usd)


@dataclass(frozen=True)
class _Priced:
    """A run's costs: of what does not hang on its tasks, and of its first 0, 1, 2, ... tasks in the subsample's order."""

    of_first: tuple[Cost, ...]

    @property
    def n_tasks(self) -> int:
        return len(self.of_first) - 1

    def at(self, share: float) -> Cost:
        return self.of_first[n_of(share, self.n_tasks)]


def n_of(share: float, n_tasks: int) -> int:
    """How many of so many tasks a share is: one at least."""
    return max(1, math.floor(share * n_tasks + 1e-9)) if n_tasks else 0


def subsampled(
    home: Home, requests: Sequence[EvaluationRequest], budget: Budget | None
) -> tuple[tuple[EvaluationRequest, ...], str | None]:
    """The requests, cut down to the budget where it says so and they exceed it; and a line that tells of it.

    The cost is that of all episodes, as if none were kept, so that a night that goes on, or the next one, chooses the same.

    Raises:
        ConfigError: a price is unknown, or one task of each run exceeds the budget.
        UsageError: a request cannot be planned.
    """
    if budget is None or budget.then != "subsample" or not requests:
        return tuple(requests), None
    with reading_once():
        plans = [plan_run(request, home) for request in requests]
    require_prices(plans, budget)
    _require_estimable(plans, budget)
    priced = [_priced(plan, budget.seed) for plan in plans]
    whole = sum((one.at(1.0) for one in priced), Cost())
    if whole.fits(budget):
        return tuple(requests), None
    share = _largest_share(priced, budget)
    cut = tuple(_cut(request, Subsample(share=share, seed=budget.seed)) for request in requests)
    estimated = sum((one.at(share) for one in priced), Cost())
    sizes = {plan.spec.full_setting: f"{n_of(share, p.n_tasks)} of {p.n_tasks}" for plan, p in zip(plans, priced, strict=True)}
    listed = ", ".join(f"{setting} {size}" for setting, size in sizes.items())
    return cut, (
        f"subsample: {share:.2%} of the tasks (seed {budget.seed}), the same for every model: {listed}."
        f" Estimated {_text(estimated, budget)}; all of them {_text(whole, budget)}"
    )


def _text(cost: Cost, budget: Budget) -> str:
    return f"{cost.tokens} tokens" + (f" and {cost.usd:.4g} USD" if budget.usd is not None else "")


def _largest_share(priced: Iterable[_Priced], budget: Budget) -> float:
    priced = tuple(priced)
    shares = sorted({n / one.n_tasks for one in priced for n in range(1, one.n_tasks + 1)})
    low, high = 0, len(shares)  # the first share that does not fit lies in [low, high]
    while low < high:
        middle = (low + high) // 2
        fits = sum((one.at(shares[middle]) for one in priced), Cost()).fits(budget)
        low, high = (middle + 1, high) if fits else (low, middle)
    if low == 0:
        least = sum((one.at(shares[0]) for one in priced), Cost())
        caps = ", ".join(f"{name}={limit:.10g}" for name, limit in budget.caps.items())
        raise ConfigError(
            f"one task of each of {len(priced)} runs costs about {_text(least, budget)}, more than the budget"
            f" {caps}. Raise it, or leave models or settings out"
        )
    return shares[low - 1]


def _cut(request: EvaluationRequest, subsample: Subsample) -> EvaluationRequest:
    return request.model_copy(update={"benchmark": request.benchmark.model_copy(update={"subsample": subsample})})


def _priced(plan: RunPlan, seed: int) -> _Priced:
    of_problem: dict[str, Cost] = {}
    for wanted in plan.wanted:
        cost = _cost(plan, whole_calls(plan, wanted))
        problem = wanted.dialog.problem_id
        of_problem[problem] = of_problem.get(problem, Cost()) + cost
    sums = [_cost(plan, drift_calls(plan))]
    for problem in problem_order(of_problem, plan.spec.benchmark, seed):
        sums.append(sums[-1] + of_problem[problem])
    return _Priced(tuple(sums))


def _cost(plan: RunPlan, asked: Iterable[tuple[ModelIdentity, ModelRequest, Calls]]) -> Cost:
    total = Cost()
    for identity, request, calls in asked:
        price_in, price_out = token_price(plan, identity, request) or (0.0, 0.0)
        usd = (calls.input_tokens * price_in + calls.output_tokens * price_out) / 1e6
        total += Cost(calls.input_tokens + calls.output_tokens, usd)
    return total


def _require_estimable(plans: Iterable[RunPlan], budget: Budget) -> None:
    for plan in plans:
        for _, _, asked in plan.models:
            if budget.usd is not None and asked.usd_per_hour is not None and asked.usd_per_million_input is None:
                raise ConfigError(
                    f"then=subsample needs an estimate, and nobody knows how many hours {asked.spec} will take. State a price of"
                    " its tokens, or cap tokens instead of usd"
                )
