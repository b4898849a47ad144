"""Writes the table of models: the models that took part in a run, and the prices of their tokens."""

from schemas.content_id import content_id
from schemas.lake.records import ModelRecord
from schemas.night.cost import Price, RoleCost
from schemas.run import ModelIdentity
from tasks.planning.plan import RunPlan
from tasks.planning.request import ModelRequest

BATCH_SHARE = 0.5
"""Share of the price that a request in a batch costs. The mart `costs` has it, too."""


def keep_models(plan: RunPlan) -> bool:
    """Write the run's models to the lake, each identity its own part; returns whether anything changed.

    A price stated before stays where none is stated now.
    """
    changed = False
    for identity, _, asked in plan.models:
        name = content_id(identity)
        known = {
            part.stem.removeprefix("part-")
            for part in plan.lake.parts("models", model=identity.label)
        }
        part = plan.lake.folder("models", model=identity.label) / f"part-{name}.parquet"
        before = plan.lake.read_part("models", ModelRecord, part)[0] if name in known else None
        row = _record(identity, asked, before)
        if row != before:
            plan.lake.write_part("models", [row], name, model=identity.label)
            changed = True
    return changed


def _record(
    identity: ModelIdentity, asked: ModelRequest, before: ModelRecord | None
) -> ModelRecord:
    prices = (asked.usd_per_million_input, asked.usd_per_million_output)
    if before is not None and prices == (None, None):
        prices = (before.usd_per_million_input, before.usd_per_million_output)
    by_hour = (
        before.usd_per_hour
        if before is not None and asked.usd_per_hour is None
        else asked.usd_per_hour
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


def price_of(plan: RunPlan, identity: ModelIdentity, asked: ModelRequest) -> Price | None:
    """Return the price of tokens that the request states, else the lake's; in batches half. None where neither has it."""
    price_in, price_out = asked.usd_per_million_input, asked.usd_per_million_output
    if price_in is price_out is None and (row := _known_record(plan, identity)):
        price_in, price_out = row.usd_per_million_input, row.usd_per_million_output
    if price_in is None or price_out is None:
        return None
    share = BATCH_SHARE if asked.batch else 1.0
    return price_in * share, price_out * share


def hour_price_of(plan: RunPlan, identity: ModelIdentity, asked: ModelRequest) -> float | None:
    """Return the price of an hour of the model's server, as the request states it, else as the lake knows it."""
    if asked.usd_per_hour is not None or not asked.is_served_here:
        return asked.usd_per_hour
    row = _known_record(plan, identity)
    return row.usd_per_hour if row else None


def role_cost(
    plan: RunPlan,
    identity: ModelIdentity,
    asked: ModelRequest,
    tokens: tuple[int, int, int] = (0, 0, 0),
    hours: float | None = None,
) -> RoleCost:
    """Return the cost of a role.

    Args:
        tokens: input and output tokens, and the number of answers that no endpoint counted.
    """
    price, by_hour = price_of(plan, identity, asked), hour_price_of(plan, identity, asked)
    return RoleCost(price, by_hour, *tokens, hours=hours)


def batched_roles(plan: RunPlan) -> tuple[str, ...]:
    """Return the roles whose requests go to batches, as the table of costs names them; of judges each with its label."""
    subject = ("subject",) if plan.request.model.batch else ()
    judges = {
        f"judge {judge.judge.judge.label}" for judge in plan.judges.values() if judge.request.batch
    }
    return (*subject, *sorted(judges))


def _known_record(plan: RunPlan, identity: ModelIdentity) -> ModelRecord | None:
    part = plan.lake.folder("models", model=identity.label) / f"part-{content_id(identity)}.parquet"
    return plan.lake.read_part("models", ModelRecord, part)[0] if part.exists() else None
