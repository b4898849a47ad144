"""Field names of Parley's models, for errors about unknown fields."""

from typing import Any, get_args, get_origin

from pydantic import BaseModel

from schemas.base import Frozen


def fields_at(title: str, place: tuple[int | str, ...]) -> tuple[str, ...]:
    """Return the names of the fields at a place within a model; none if no model is there.

    Args:
        title: name of the outermost model.
        place: location as pydantic reports it: names of fields and positions.
    """
    kind: Any = _model(Frozen, title)
    for step in place:
        kind = _inner(_bare(kind), step)
    kind = _bare(kind)
    return tuple(kind.model_fields) if _is_model(kind) else ()


def _model(base: type[Frozen], title: str) -> type[Frozen] | None:
    for kind in base.__subclasses__():
        if model := kind if kind.__name__ == title else _model(kind, title):
            return model
    return None


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _bare(kind: Any) -> Any:
    """Return `X` for `X | None` and for `Annotated[X, ...]`."""
    if get_origin(kind) in (tuple, dict) or not get_args(kind):
        return kind
    return _bare(next(part for part in get_args(kind) if part is not type(None)))


def _inner(kind: Any, step: int | str) -> Any:
    """Return the type of a field, or of a list's or mapping's member; None if there is none."""
    if _is_model(kind):
        field = kind.model_fields.get(step)
        return field.annotation if field else None
    members = {tuple: 0, dict: 1}
    return get_args(kind)[members[get_origin(kind)]] if get_origin(kind) in members else None
