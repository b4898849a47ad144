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
class Asked:
    """Requests of a role (subject, simulator, judge) to its model."""

    role: str
    identity: ModelIdentity
    request: ModelRequest
    calls: Calls


def estimated_costs(
    plan: RunPlan, asked: Iterable[Asked], n_dialogues: int
) -> list[tuple[Asked, RoleCost]]:
    """Return each role's requests with their cost: tokens by price, and a share of server hours.

    Args:
        plan: Plan of the run.
        asked: Requests of each role.
        n_dialogues: Number of dialogues that the requests belong to. 0 if no server is started for
            them.
    """
    costs: list[tuple[Asked, RoleCost]] = []
    served = set[tuple[str, ModelIdentity]]()
    for requests in asked:
        is_first = (
            requests.role,
            requests.identity,
        ) not in served  # Several rubrics share the hours of their judge.
        hours = _hours(plan, requests, n_dialogues) if is_first else 0.0
        served.add((requests.role, requests.identity))
        price, by_hour = (
            stated_price(plan, requests.identity, requests.request),
            hour_price_of(plan, requests.identity, requests.request),
        )
        costs.append(
            (
                requests,
                RoleCost(
                    price,
                    by_hour,
                    requests.calls.input_tokens,
                    requests.calls.output_tokens,
                    hours=hours,
                ),
            )
        )
    return costs


def _hours(plan: RunPlan, asked: Asked, n_dialogues: int) -> float | None:
    if not n_dialogues or not asked.request.is_served_here:
        return 0.0
    each = usual_hours(plan, asked.role, asked.identity)
    return None if each is None else each * n_dialogues


def unknown_hours(costs: Iterable[tuple[Asked, RoleCost]]) -> tuple[str, ...]:
    """Return the models with a price per hour whose server time no earlier run measured."""
    unknown = (
        asked.identity.label
        for asked, cost in costs
        if cost.usd_per_hour is not None and cost.hours is None
    )
    return tuple(dict.fromkeys(unknown))
