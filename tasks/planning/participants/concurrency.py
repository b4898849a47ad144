"""Endpoints of a run's models, and their numbers of concurrent requests.

Roles that use the same endpoint share its concurrency.
"""

from collections.abc import Mapping

from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.access import ModelAccess
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.plan import RunPlan

Endpoint = tuple[str, str | None]
"""Endpoint: (address, or the model's label if it has none; name of the key's variable)."""


def endpoint_of(access: ModelAccess) -> Endpoint:
    """Return the endpoint of a model. A model without an address has a separate endpoint."""
    return access.endpoint.base_url or access.label, access.endpoint.key_env


def endpoints_of(plan: RunPlan) -> frozenset[Endpoint]:
    """Return the endpoints that a run's dialogues use. Runs with equal endpoints form a queue."""
    players = (plan.subject, plan.simulator)
    return frozenset(endpoint_of(access) for access in players if access is not None)


def concurrency_by_endpoint(plan: RunPlan | BuildPlan) -> Mapping[Endpoint, int]:
    """Map each endpoint to its number of concurrent requests.

    If several roles use one endpoint, the smallest number of their policies applies.
    """
    limits: dict[Endpoint, int] = {}
    for access, _ in plan.models:
        name, limit = endpoint_of(access), access.policy.concurrency
        limits[name] = min(limits.get(name, limit), limit)
    return limits


def access_in_worker(
    plan: RunPlan | BuildPlan,
    access: ModelAccess,
    served: Mapping[ModelIdentity, ModelEndpoint],
    workers: int,
) -> ModelAccess:
    """Return the access to a model of the plan for one of `workers` processes.

    Args:
        served: Endpoints of the models that this machine serves.
    """
    limit = concurrency_by_endpoint(plan)[endpoint_of(access)]
    return access.at(served.get(access.identity)).limited(limit).shared_by(workers)
