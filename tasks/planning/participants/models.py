"""Writes the table of models: the models that took part in a run, and the prices of their tokens."""

from schemas.content_id import content_id
from schemas.lake.records import ModelRecord
from schemas.run import ModelIdentity
from tasks.planning.plan import RunPlan
from tasks.planning.request import ModelRequest


def keep_models(plan: RunPlan) -> bool:
    """Write the run's models to the lake, each identity its own part; returns whether anything changed.

    A price stated before stays where none is stated now.
    """
    changed = False
    for identity, _, asked in plan.models:
        name = content_id(identity)
        known = {part.stem.removeprefix("part-") for part in plan.lake.parts("models", model=identity.label)}
        part = plan.lake.folder("models", model=identity.label) / f"part-{name}.parquet"
        before = plan.lake.read_part("models", ModelRecord, part)[0] if name in known else None
        row = _record(identity, asked, before)
        if row != before:
            plan.lake.write_part("models", [row], name, model=identity.label)
            changed = True
    return changed


def _record(identity: ModelIdentity, asked: ModelRequest, before: ModelRecord | None) -> ModelRecord:
    prices = (asked.usd_per_million_input, asked.usd_per_million_output)
    if before is not None and prices == (None, None):
        prices = (before.usd_per_million_input, before.usd_per_million_output)
    by_hour = before.usd_per_hour if before is not None and asked.usd_per_hour is None else asked.usd_per_hour
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


def prices_of(plan: RunPlan, identity: ModelIdentity, asked: ModelRequest) -> tuple[float | None, float | None]:
    """USD per million input and output tokens, as the request states them, else as the lake knows them."""
    stated = asked.usd_per_million_input, asked.usd_per_million_output
    return prices(plan, identity) if stated == (None, None) else stated


def prices(plan: RunPlan, identity: ModelIdentity) -> tuple[float | None, float | None]:
    """USD per million input and output tokens, as the lake knows them; None where nobody said."""
    part = plan.lake.folder("models", model=identity.label) / f"part-{content_id(identity)}.parquet"
    if not part.exists():
        return None, None
    (row,) = plan.lake.read_part("models", ModelRecord, part)
    return row.usd_per_million_input, row.usd_per_million_output
