"""Which ingredient makes two runs different: the answer to "why is this run again?"."""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from schemas.content_id import canonical_json
from schemas.errors import UsageError
from schemas.run import RunSpec


@dataclass(frozen=True)
class Difference:
    """One field that differs, and what it makes anew.

    Attributes:
        reruns: `dialogues` where the field is part of the episodes' ids, else `scoring`.
    """

    field: str
    before: str
    after: str
    reruns: str


def differences(before: RunSpec, after: RunSpec) -> tuple[Difference, ...]:
    """All fields in which two specs differ, by dotted name, in the order of the model."""
    ingredients = {"benchmark", "benchmark_version", "dataset_version", "setting", "episode_options", "subject", "simulator"}
    ingredients |= {"sampling", "prompts", "seed", "dataset_digest"}
    found: list[Difference] = []
    for name in RunSpec.model_fields:
        for field, old, new in _walk(name, getattr(before, name), getattr(after, name)):
            found.append(Difference(field, old, new, "dialogues" if name in ingredients else "scoring"))
    return tuple(found)


def _walk(name: str, before: Any, after: Any) -> list[tuple[str, str, str]]:
    if isinstance(before, BaseModel) and isinstance(after, BaseModel):
        return [
            item
            for field in type(before).model_fields
            for item in _walk(f"{name}.{field}", getattr(before, field), getattr(after, field))
        ]
    if name.endswith(("_options", "prompts")):
        old, new = dict(before), dict(after)
        return [
            (f"{name}.{key}", str(old.get(key, "-")), str(new.get(key, "-")))
            for key in sorted({*old, *new})
            if old.get(key) != new.get(key)
        ]
    if before == after:
        return []
    return [(name, _text(before), _text(after))]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def refuse_other_run(resumed: RunSpec, asked: RunSpec) -> None:
    """Raise unless the request describes the run that is to be resumed.

    Raises:
        UsageError: names each field that differs.
    """
    found = differences(resumed, asked)
    if found:
        listed = "; ".join(f"{d.field}: {d.before!r} there, {d.after!r} asked" for d in found[:6])
        raise UsageError(
            f"--resume {resumed.run_id} is another run than the one asked for ({listed}). Leave --resume out for a run of its"
            " own, or give the options of the run to go on with"
        )
