"""Defines what is estimated of a run's cost: for dry runs, checkpoints and subsamples alike."""

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
    """Return each role's requests with their cost: tokens by their prices, and a share of hours for each dialogue.

    Args:
        n_dialogues: dialogues that the requests belong to; 0 where no server is started for them.
    """
    costs: list[tuple[Asked, RoleCost]] = []
    served = set[tuple[str, ModelIdentity]]()
    for one in asked:
        is_first = (
            one.role,
            one.identity,
        ) not in served  # several rubrics share the hours of their judge
        hours = _hours(plan, one, n_dialogues) if is_first else 0.0
        served.add((one.role, one.identity))
        price, by_hour = (
            stated_price(plan, one.identity, one.request),
            hour_price_of(plan, one.identity, one.request),
        )
        costs.append(
            (
                one,
                RoleCost(
                    price, by_hour, one.calls.input_tokens, one.calls.output_tokens, hours=hours
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
    """Return the models that cost by the hour, of which no earlier run tells how long their servers stand ready."""
    unknown = (
        asked.identity.label
        for asked, cost in costs
        if cost.usd_per_hour is not None and cost.hours is None
    )
    return tuple(dict.fromkeys(unknown))
