"""Estimated cost of a run, for dry runs, checkpoints and subsamples."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from flows.night.preflight.earlier_usage import Calls, usual_hours
from flows.night.spending import stated_price
from schemas.night.cost import RoleCost
from schemas.run import ModelIdentity
from tasks.planning.participants.choice import PlannedModel
from tasks.planning.participants.models import role_cost
from tasks.planning.plan import RunPlan


@dataclass(frozen=True)
class RoleRequests:
    """Requests of a role (subject, simulator, judge) to its model."""

    model: PlannedModel
    calls: Calls


def estimated_costs(
    plan: RunPlan, role_requests: Iterable[RoleRequests], n_dialogues: int
) -> list[tuple[RoleRequests, RoleCost]]:
    """Return each role's requests with their cost: tokens by price, and a share of server hours.

    Args:
        plan: Plan of the run.
        role_requests: Requests of each role.
        n_dialogues: Number of dialogues that the requests belong to. 0 if no server is started for
            them.
    """
    costs: list[tuple[RoleRequests, RoleCost]] = []
    served = set[tuple[str, ModelIdentity]]()
    for requests in role_requests:
        model, calls = requests.model, requests.calls
        # Several rubrics share the hours of their judge.
        is_first = (model.role, model.identity) not in served
        hours = _hours(plan, model, n_dialogues) if is_first else 0.0
        served.add((model.role, model.identity))
        cost = role_cost(plan.lake, model, (calls.input_tokens, calls.output_tokens, 0), hours)
        costs.append((requests, replace(cost, price=stated_price(plan.lake, model))))
    return costs


def _hours(plan: RunPlan, model: PlannedModel, n_dialogues: int) -> float | None:
    if not n_dialogues or not model.request.is_served_here:
        return 0.0
    each = usual_hours(plan, model.role, model.identity)
    return None if each is None else each * n_dialogues


def unknown_hours(costs: Iterable[tuple[RoleRequests, RoleCost]]) -> tuple[str, ...]:
    """Return the models with a price per hour whose server time no earlier run measured."""
    unknown = (
        requests.model.identity.label
        for requests, cost in costs
        if cost.usd_per_hour is not None and cost.hours is None
    )
    return tuple(dict.fromkeys(unknown))
