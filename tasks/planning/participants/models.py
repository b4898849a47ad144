"""Models of a run: rows and prices, samplings, and the shares of their endpoints' concurrency."""

from collections.abc import Iterable, Mapping

from schemas.content_id import canonical_json, content_id
from schemas.lake.records import ModelRecord, RoleSampling, RunRecord
from schemas.night.cost import Price, RoleCost
from schemas.run import EndpointProfile, ModelEndpoint, ModelIdentity, Sampling
from tasks.benchmarks.setting import RoleOfModel
from tasks.language.access import ModelAccess
from tasks.language.providers.registry import PROVIDERS
from tasks.planning.participants.access import PlannedModel
from tasks.storage.parquet_store import Lake

BATCH_SHARE = 0.5
"""Share of the price that a request in a batch costs. The mart `costs` uses the same share."""


def keep_models(lake: Lake, models: Iterable[PlannedModel]) -> bool:
    """Write the models of a run to the lake, one part for each identity.

    If the run's configuration has no price of a model, the price stored by an earlier run stays.

    Returns:
        True if a row changed.
    """
    changed = False
    for model in models:
        before = _known_record(lake, model.identity)
        row = _record(model, before)
        if row != before:
            name = content_id(model.identity)
            lake.write_part("models", [row], name, model=model.identity.label)
            changed = True
    return changed


def _record(model: PlannedModel, before: ModelRecord | None) -> ModelRecord:
    identity, request = model.identity, model.request
    prices = (request.usd_per_million_input, request.usd_per_million_output)
    if before is not None and prices == (None, None):
        prices = (before.usd_per_million_input, before.usd_per_million_output)
    by_hour = (
        before.usd_per_hour
        if before is not None and request.usd_per_hour is None
        else request.usd_per_hour
    )
    return ModelRecord(
        model=identity.label,
        provider=identity.provider,
        name=identity.name,
        revision=identity.revision,
        weights_digest=identity.weights_digest,
        chat_template=identity.chat_template,
        usd_per_million_input=prices[0],
        usd_per_million_output=prices[1],
        usd_per_hour=by_hour,
    )


def role_cost(
    lake: Lake,
    model: PlannedModel,
    tokens: tuple[float, float, int] = (0, 0, 0),
    hours: float | None = None,
) -> RoleCost:
    """Return the cost of a role, at the prices of its request or else of the lake.

    Requests in batches cost half.

    Args:
        lake: lake with the prices that earlier runs stated.
        model: model of the role.
        tokens: input tokens, output tokens, and number of answers whose tokens no endpoint counted.
        hours: hours of the model's server; None if unknown.
    """
    request, known = model.request, _known_record(lake, model.identity)
    price_in, price_out = request.usd_per_million_input, request.usd_per_million_output
    by_hour = request.usd_per_hour
    if known is not None and price_in is price_out is None:
        price_in, price_out = known.usd_per_million_input, known.usd_per_million_output
    if known is not None and by_hour is None and request.is_served_here:
        by_hour = known.usd_per_hour
    share = BATCH_SHARE if request.batch else 1.0
    price = None if price_in is None or price_out is None else (price_in * share, price_out * share)
    return RoleCost(price, by_hour, *tokens, hours=hours)


def stated_price(lake: Lake, model: PlannedModel) -> Price | None:
    """Return the price of tokens, stated now or in an earlier run.

    Return 0 for controls and recordings, None if it is unknown.
    """
    price = role_cost(lake, model).price
    return (0.0, 0.0) if price is None and _knows_answers(model) else price


def token_price(lake: Lake, model: PlannedModel) -> Price | None:
    """Return the token price that a cap counts.

    A model that Parley serves and that costs only by the hour has the token price 0.
    """
    price = stated_price(lake, model)
    return (0.0, 0.0) if price is None and model.request.usd_per_hour is not None else price


def player_prices(lake: Lake, models: Iterable[PlannedModel]) -> tuple[Price | None, ...]:
    """Return the USD per million tokens of the subject, then of the simulator if there is one.

    Return () if tokens cost nothing.
    """
    prices = tuple(token_price(lake, model) for model in models if model.role != "judge")
    return prices if any(price != (0.0, 0.0) for price in prices) else ()


def sends_nothing(model: PlannedModel) -> bool:
    """Return True for a control or a recording without a stated price: no requests are sent."""
    prices = (model.request.usd_per_million_input, model.request.usd_per_million_output)
    return _knows_answers(model) and prices == (None, None)


def _knows_answers(model: PlannedModel) -> bool:
    return PROVIDERS.load(model.identity.provider).knows_answers


def batched_roles(models: Iterable[PlannedModel]) -> set[str]:
    """Return the roles whose requests go to batches: `subject`, `judge LABEL`."""
    return {
        f"judge {model.access.label}" if model.role == "judge" else model.role
        for model in models
        if model.request.batch
    }


def _known_record(lake: Lake, identity: ModelIdentity) -> ModelRecord | None:
    part = lake.folder("models", model=identity.label) / f"part-{content_id(identity)}.parquet"
    return lake.read_part("models", ModelRecord, part)[0] if part.exists() else None


def join_profiles(
    profiles: dict[str, EndpointProfile], learned: Iterable[tuple[str, EndpointProfile]]
) -> None:
    """Merge the profiles that a shard's process learned into `profiles` (role -> profile)."""
    for role, profile in learned:
        profiles[role] = profiles[role].joined(profile) if role in profiles else profile


def recorded_profiles(
    before: RunRecord | None, profiles: Mapping[str, EndpointProfile]
) -> tuple[tuple[str, str], ...]:
    """Return (role, endpoint profile as JSON), sorted by role.

    A role without requests in this invocation keeps the profile of the earlier record.
    """
    earlier = dict(before.profiles) if before else {}
    return tuple(
        sorted(
            {
                **earlier,
                **{role: canonical_json(profile) for role, profile in profiles.items()},
            }.items()
        )
    )


def sampling_rows(roles: Iterable[RoleOfModel]) -> tuple[RoleSampling, ...]:
    """Return the rows about the sampling of each role that a model plays."""
    shared = RoleSampling.model_fields.keys() & Sampling.model_fields.keys()
    return tuple(
        RoleSampling.model_validate(
            {name: getattr(sampling, name) for name in shared}
            | {"role": role, "rubric": rubric, "model": identity.label}
        )
        for role, rubric, identity, sampling in roles
    )


Endpoint = tuple[str, str | None]
"""Endpoint: (address, or the model's label if it has none; name of the key's variable)."""


def endpoint_of(access: ModelAccess) -> Endpoint:
    """Return the endpoint of a model. A model without an address has a separate endpoint."""
    return access.endpoint.base_url or access.label, access.endpoint.key_env


def endpoints_of(*players: ModelAccess | None) -> frozenset[Endpoint]:
    """Return the endpoints that dialogues use. Runs with equal endpoints form a queue."""
    return frozenset(endpoint_of(access) for access in players if access is not None)


def concurrency_by_endpoint(models: Iterable[PlannedModel]) -> Mapping[Endpoint, int]:
    """Map each endpoint to its number of concurrent requests.

    If several roles use one endpoint, the smallest number of their policies applies.
    """
    limits: dict[Endpoint, int] = {}
    for model in models:
        name, limit = endpoint_of(model.access), model.access.policy.concurrency
        limits[name] = min(limits.get(name, limit), limit)
    return limits


def access_in_worker(
    models: Iterable[PlannedModel],
    access: ModelAccess,
    served: Mapping[ModelIdentity, ModelEndpoint],
    workers: int,
) -> ModelAccess:
    """Return the access to a model for one of `workers` processes.

    Args:
        models: All models of the plan, which may share endpoints.
        access: Access to the model.
        served: Endpoints of the models that this machine serves.
    """
    limit = concurrency_by_endpoint(models)[endpoint_of(access)]
    return access.at(served.get(access.identity)).limited(limit).shared_by(workers)
