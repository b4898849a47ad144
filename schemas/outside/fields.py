"""The fields that a model of ours knows at a place within it, for errors about one that it does not know."""

from typing import Any, get_args, get_origin

from pydantic import BaseModel

from schemas.base import Frozen


def fields_at(title: str, place: tuple[int | str, ...]) -> tuple[str, ...]:
    """Names of the fields at a place, as pydantic tells it; none where no model lies there.

    Args:
        title: the outermost model's name.
    """
    kind: Any = _model(Frozen, title)
    for step in place:
        kind = _inner(_bare(kind), step)
    kind = _bare(kind)
    return tuple(kind.model_fields) if _is_model(kind) else ()


def _model(base: type[Frozen], title: str) -> type[Frozen] | None:
    for kind in base.__subclasses__():
        if found := kind if kind.__name__ == title else _model(kind, title):
            return found
    return None


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _bare(kind: Any) -> Any:
    """`X` of `X | None`, and of `Annotated[X, ...]`."""
    if get_origin(kind) in (tuple, dict) or not get_args(kind):
        return kind
    return _bare(next(one for one in get_args(kind) if one is not type(None)))


def _inner(kind: Any, step: int | str) -> Any:
    """Type of a field, or of a list's or mapping's member; None where there is none of that name."""
    if _is_model(kind):
        field = kind.model_fields.get(step)
        return field.annotation if field else None
    members = {tuple: 0, dict: 1}
    return get_args(kind)[members[get_origin(kind)]] if get_origin(kind) in members else None
