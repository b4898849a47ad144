"""The one base class: frozen, strict about unknown fields, tuples instead of lists."""

from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_ADDED = "added_later"


class Frozen(BaseModel):
    """A value: cannot be changed, refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


def added_later(default: Any, **constraints: Any) -> Any:
    """A field that came after ids were first kept: a content id leaves it out at its default, so that no older id moves.

    Args:
        default: the value of all older specs. Never change it: the ids that leave it out would move.
        constraints: as of pydantic's `Field`.
    """
    return Field(default=default, json_schema_extra={_ADDED: True}, **constraints)


def fields_of_id(value: BaseModel) -> tuple[str, ...]:
    """Names of the fields that a value's content id is made of, in the model's order."""
    names, later = _names(type(value)), _later_fields(type(value))
    unset = {name for name, default in later.items() if getattr(value, name) == default}
    return tuple(name for name in names if name not in unset) if unset else names


@cache
def _names(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(model.model_fields)


@cache
def _later_fields(model: type[BaseModel]) -> dict[str, Any]:
    """Field that was added later -> its default."""
    extras = {
        name: (field.json_schema_extra, field.default) for name, field in model.model_fields.items()
    }
    return {
        name: default
        for name, (extra, default) in extras.items()
        if isinstance(extra, dict) and extra.get(_ADDED)
    }
