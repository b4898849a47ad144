"""The one base class: frozen, strict about unknown fields, tuples instead of lists."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value: cannot be changed, refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")
