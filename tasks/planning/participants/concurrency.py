"""Endpoints of a run's models, and their numbers of concurrent requests.

Roles that use the same endpoint share its concurrency.
"""

from collections.abc import Mapping

from schemas.run import ModelEndpoint, ModelIdentity
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.plan import RunPlan

IN_BATCHES = 50_000
"""Default number of concurrent requests of a model whose requests go to batches."""
Endpoint = tuple[str, str | None]
"""Endpoint: (address, or the model's label if it has none; name of the key's variable)."""


def endpoint_of(identity: ModelIdentity, endpoint: ModelEndpoint) -> Endpoint:
    """Return the endpoint of a model. A model without an address has a separate endpoint."""
    return endpoint.base_url or identity.label, endpoint.key_env


def endpoints_of(plan: RunPlan) -> frozenset[Endpoint]:
    """Return the endpoints that a run's dialogues use. Runs with equal endpoints form a queue."""
    players = (plan.spec.subject, plan.subject), (plan.spec.simulator, plan.simulator)
    return frozenset(endpoint_of(who, where) for who, where in players if who and where)


def place_of(
    identity: ModelIdentity, planned: ModelEndpoint, served: Mapping[ModelIdentity, ModelEndpoint]
) -> ModelEndpoint:
    """Return the endpoint of a model: a server started for this run, or else the planned endpoint.

    The endpoint profile always comes from the plan.
    """
    server = served.get(identity)
    return planned if server is None else server.model_copy(update={"profile": planned.profile})


def concurrency_by_endpoint(plan: RunPlan | BuildPlan) -> Mapping[Endpoint, int]:
    """Map each endpoint to its number of concurrent requests.

    The number comes from the model's request, or else from the run's `concurrency`. If several
    roles use one endpoint, the smallest number applies.
    """
    limits: dict[Endpoint, int] = {}
    for identity, endpoint, request in plan.models:
        name = endpoint_of(identity, endpoint)
        limit = request.concurrency or (IN_BATCHES if request.batch else plan.request.concurrency)
        limits[name] = min(limits.get(name, limit), limit)
    return limits
