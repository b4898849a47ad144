"""Estimated cost of a run, for dry runs, checkpoints and subsamples."""

from collections.abc import Iterable
from dataclasses import dataclass

from flows.night.preflight.earlier_usage import Calls, usual_hours
from flows.night.spending import stated_price
from schemas.night.cost import RoleCost
from schemas.run import ModelIdentity
from tasks.planning.participants.models import hour_price_of
from tasks.planning.plan import RunPlan
from tasks.planning.request import ModelRequest


@dataclass(frozen=True)
class RoleRequests:
    """Requests of a role (subject, simulator, judge) to its model."""

    role: str
    identity: ModelIdentity
    request: ModelRequest
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
        identity, calls = requests.identity, requests.calls
        # Several rubrics share the hours of their judge.
        is_first = (requests.role, identity) not in served
        served.add((requests.role, identity))
        cost = RoleCost(
            stated_price(plan, identity, requests.request),
            hour_price_of(plan, identity, requests.request),
            calls.input_tokens,
            calls.output_tokens,
            hours=_hours(plan, requests, n_dialogues) if is_first else 0.0,
        )
        costs.append((requests, cost))
    return costs


def _hours(plan: RunPlan, requests: RoleRequests, n_dialogues: int) -> float | None:
    if not n_dialogues or not requests.request.is_served_here:
        return 0.0
    each = usual_hours(plan, requests.role, requests.identity)
    return None if each is None else each * n_dialogues


def unknown_hours(costs: Iterable[tuple[RoleRequests, RoleCost]]) -> tuple[str, ...]:
    """Return the models with a price per hour whose server time no earlier run measured."""
    unknown = (
        requests.identity.label
        for requests, cost in costs
        if cost.usd_per_hour is not None and cost.hours is None
    )
    return tuple(dict.fromkeys(unknown))
