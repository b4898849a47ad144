"""Where a run's models are, and how many requests each endpoint may have at once. Roles that share one share its concurrency."""

from collections.abc import Mapping

from schemas.run import ModelEndpoint, ModelIdentity
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.plan import RunPlan

IN_BATCHES = 50_000
"""Requests that wait for batches at once, of a model whose request does not say how many."""
Endpoint = tuple[str, str | None]
"""(address, or the model where it has none; variable of the key)."""


def endpoint_of(identity: ModelIdentity, endpoint: ModelEndpoint) -> Endpoint:
    """Which endpoint a model is on. Parley's own servers and recordings are each model's own."""
    return endpoint.base_url or identity.label, endpoint.key_env


def place_of(
    identity: ModelIdentity, planned: ModelEndpoint, served: Mapping[ModelIdentity, ModelEndpoint]
) -> ModelEndpoint:
    """Return where a model is: at a server that was started for this run, or as planned. Its requests have the planned form."""
    place = served.get(identity)
    return planned if place is None else place.model_copy(update={"profile": planned.profile})


def concurrency_by_endpoint(plan: RunPlan | BuildPlan) -> Mapping[Endpoint, int]:
    """Requests at once by endpoint: what the model's request says, else `concurrency`. Of several roles the least."""
    found: dict[Endpoint, int] = {}
    for identity, endpoint, asked in plan.models:
        name = endpoint_of(identity, endpoint)
        wanted = asked.concurrency or (IN_BATCHES if asked.batch else plan.request.concurrency)
        found[name] = min(found.get(name, wanted), wanted)
    return found
