"""How many requests each endpoint may have at once. Roles that share an endpoint share its concurrency."""

from collections.abc import Mapping

from schemas.run import ModelEndpoint, ModelIdentity
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.plan import RunPlan

Endpoint = tuple[str, str | None]
"""(address, or the model where it has none; variable of the key)."""


def endpoint_of(identity: ModelIdentity, endpoint: ModelEndpoint) -> Endpoint:
    """Which endpoint a model is on. Parley's own servers and recordings are each model's own."""
    return endpoint.base_url or identity.label, endpoint.key_env


def concurrency_by_endpoint(plan: RunPlan | BuildPlan) -> Mapping[Endpoint, int]:
    """Requests at once by endpoint: what the model's request says, else `concurrency`. Of several roles the least."""
    found: dict[Endpoint, int] = {}
    for identity, endpoint, asked in plan.models:
        name = endpoint_of(identity, endpoint)
        wanted = asked.concurrency or plan.request.concurrency
        found[name] = min(found.get(name, wanted), wanted)
    return found
