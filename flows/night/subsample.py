"""Choice of a share of the tasks whose estimated cost fits a budget, before the first request.

All models of a night get the same share.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flows.night.preflight.assumed_requests import drift_calls, whole_calls
from flows.night.preflight.earlier_usage import (
    RoleRequests,
    estimated_costs,
    turns_to_build,
    unknown_hours,
)
from flows.night.spending import require_prices
from schemas.content_id import content_id
from schemas.errors import ConfigError
from schemas.grouping import grouped
from schemas.night.budget import Budget
from schemas.night.cost import sum_usd, sum_usd_hourly
from tasks.planning.dataset import DatasetCache, problem_order
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import EvaluationRequest, Subsample
from tasks.storage.home import Home
from tasks.storage.home_records import StoredShare, StoredShares


@dataclass(frozen=True)
class Cost:
    """Estimated tokens and dollars."""

    tokens: float = 0
    usd: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.tokens + other.tokens, self.usd + other.usd)

    def fits(self, budget: Budget) -> bool:
        """Return True if the cost exceeds no cap of the budget."""
        return (budget.tokens is None or self.tokens <= budget.tokens) and (
            budget.usd is None or self.usd <= budget.usd
        )


@dataclass(frozen=True)
class _Priced:
    """Cost of a run if it plays its first 0, 1, 2, ... tasks."""

    of_first: tuple[Cost, ...]

    @property
    def n_tasks(self) -> int:
        return len(self.of_first) - 1

    def at(self, share: float) -> Cost:
        return self.of_first[n_of(share, self.n_tasks)]


def n_of(share: float, n_tasks: int) -> int:
    """Return the number of tasks in a share of `n_tasks`, at least one."""
    return max(1, math.floor(share * n_tasks + 1e-9)) if n_tasks else 0


def subsampled(
    home: Home, requests: Sequence[EvaluationRequest], budget: Budget | None, *, keep: bool = True
) -> tuple[tuple[EvaluationRequest, ...], str | None]:
    """Return the requests, reduced to the budget if they exceed it, and a line about the choice.

    The requests stay unchanged unless the budget has `then=subsample`. The cost counts all
    episodes, as if none were stored. The first choice for a run and a budget is stored and used in
    later nights: a later estimate would be more precise, but other tasks would cost new requests.
    New runs of the same settings use the share of an earlier night if it still fits.

    Args:
        home: Parley's data folder.
        requests: Requests of the night.
        budget: Caps of the night, if any.
        keep: Store the choice. Pass False for a dry run.

    Raises:
        ConfigError: A price is unknown, or one task of each run exceeds the budget.
        UsageError: A request cannot be planned.
    """
    if budget is None or budget.then != "subsample" or not requests:
        return tuple(requests), None
    cache = DatasetCache()
    plans = [plan_run(request, home, cache) for request in requests]
    require_prices(plans, budget)
    stored = StoredShares(home.subsamples)
    keys, night = [_run_key(plan, budget) for plan in plans], _night_key(plans, budget)
    stored_shares = [stored.of_run(key) for key in keys]
    new = [plan for plan, share in zip(plans, stored_shares, strict=True) if share is None]
    candidates = [share for share in (*stored_shares, stored.of_night(night)) if share is not None]
    share, line = _choose_share(new, candidates, budget) if new else (1.0, None)
    if keep:
        for key, earlier in zip(keys, stored_shares, strict=True):
            if earlier is None:
                stored.add(StoredShare(key, night, share))
    shares = [share if earlier is None else earlier for earlier in stored_shares]
    cut = [
        _cut(request, of_run, budget.seed) for request, of_run in zip(requests, shares, strict=True)
    ]
    again = [
        (plan, earlier)
        for plan, earlier in zip(plans, stored_shares, strict=True)
        if earlier is not None and earlier < 1
    ]
    lines = ([line] if line else []) + (
        [f"subsample chosen earlier for this budget: {_sizes(again)}"] if again else []
    )
    return tuple(cut), "; ".join(lines) or None


def _choose_share(
    plans: Sequence[RunPlan], stored: Sequence[float], budget: Budget
) -> tuple[float, str | None]:
    """Return the share of tasks for all these runs, and a line about it.

    It is the first stored share that fits the budget, or else the largest share that fits.
    """
    priced = [_priced(plan, budget) for plan in plans]
    whole = sum((run.at(1.0) for run in priced), Cost())
    candidates = (*stored, *([1.0] if whole.fits(budget) else []))
    fitting = (
        share for share in candidates if sum((run.at(share) for run in priced), Cost()).fits(budget)
    )
    share = next(fitting, None) or _largest_share(priced, budget)
    if share == 1:
        return share, None
    estimated = sum((run.at(share) for run in priced), Cost())
    return share, (
        f"subsample: {share:.2%} of the tasks (seed {budget.seed}), the same for every model:"
        f" {_sizes([(plan, share) for plan in plans])}."
        f" Estimated cost {_text(estimated, budget)}; of all tasks {_text(whole, budget)}"
    )


def _sizes(shares: Iterable[tuple[RunPlan, float]]) -> str:
    sizes = {
        plan.spec.full_setting: f"{n_of(share, n)} of {n}"
        for plan, share in shares
        for n in [_n_tasks(plan)]
    }
    return ", ".join(f"{setting} {size}" for setting, size in sizes.items())


def _n_tasks(plan: RunPlan) -> int:
    return len(plan.wanted.problem_ids)


def _run_key(plan: RunPlan, budget: Budget) -> str:
    return content_id([plan.run_id, _n_tasks(plan), budget])


def _night_key(plans: Iterable[RunPlan], budget: Budget) -> str:
    settings = sorted(
        [plan.spec.full_setting, plan.spec.dataset_version, str(_n_tasks(plan))] for plan in plans
    )
    return content_id([settings, budget])


def _text(cost: Cost, budget: Budget) -> str:
    return f"{cost.tokens:.0f} tokens" + (
        f" and {cost.usd:.4g} USD" if budget.usd is not None else ""
    )


def _largest_share(priced: Iterable[_Priced], budget: Budget) -> float:
    priced = tuple(priced)
    shares = sorted({n / run.n_tasks for run in priced for n in range(1, run.n_tasks + 1)})
    low, high = 0, len(shares)  # The first share that does not fit lies in [low, high].
    while low < high:
        middle = (low + high) // 2
        fits = sum((run.at(shares[middle]) for run in priced), Cost()).fits(budget)
        low, high = (middle + 1, high) if fits else (low, middle)
    if low == 0:
        least = sum((run.at(shares[0]) for run in priced), Cost())
        caps = ", ".join(f"{name}={limit:.10g}" for name, limit in budget.caps.items())
        raise ConfigError(
            f"one task of each of {len(priced)} runs costs about {_text(least, budget)}, more than"
            f" the budget {caps}. Raise the budget, or remove models or settings"
        )
    return shares[low - 1]


def _cut(request: EvaluationRequest, share: float, seed: int) -> EvaluationRequest:
    if share == 1:
        return request
    subsample = Subsample(share=share, seed=seed)
    return request.model_copy(
        update={"benchmark": request.benchmark.model_copy(update={"subsample": subsample})}
    )


def _priced(plan: RunPlan, budget: Budget) -> _Priced:
    of_problem = grouped((wanted.problem_id, wanted) for wanted in plan.wanted)
    order = problem_order(of_problem, plan.spec.benchmark, budget.seed)
    talks = turns_to_build(
        plan, (wanted for problem in order for wanted in of_problem[problem]), {}
    )
    sums = [_cost(plan, drift_calls(plan), 0, budget)]
    for problem in order:
        sums.append(
            sum(
                (
                    _cost(plan, whole_calls(plan, wanted, talks), 1, budget)
                    for wanted in of_problem[problem]
                ),
                sums[-1],
            )
        )
    return _Priced(tuple(sums))


def _cost(plan: RunPlan, calls: Iterable[RoleRequests], n_dialogues: int, budget: Budget) -> Cost:
    costs = estimated_costs(plan, calls, n_dialogues)
    if budget.usd is not None and (unknown := unknown_hours(costs)):
        raise ConfigError(
            "then=subsample needs an estimate, but no earlier run shows how many hours"
            f" {', '.join(unknown)} will take. Run a few tasks first (--limit),"
            " or cap tokens instead of usd"
        )
    roles = [cost for _, cost in costs]
    tokens = sum(role.input_tokens + role.output_tokens for role in roles)
    return Cost(tokens, (sum_usd(roles) or 0.0) + (sum_usd_hourly(roles) or 0.0))
