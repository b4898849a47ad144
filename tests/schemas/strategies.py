"""Any model's values, generated from its annotations and bounds; and values that differ from one in
exactly one place.
"""

import types
from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, MinLen
from hypothesis import strategies as st
from pydantic import BaseModel

from schemas.episode import Score, UnscoredReason
from schemas.run import Float32

INT64 = 2**63
MODELS: dict[type[BaseModel], Any] = {}
TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["", "\0", "ünï", "e\u0301", "\u2028", "'\"\\", "🙂", "a\r\nb"]
)


def _bound(metadata: list[Any], kind: type, attribute: str) -> Any:
    return next((getattr(m, attribute) for m in metadata if isinstance(m, kind)), None)


def _floats(metadata: list[Any]) -> st.SearchStrategy[float]:
    above = _bound(metadata, Gt, "gt")
    return st.floats(
        min_value=above if above is not None else _bound(metadata, Ge, "ge"),
        max_value=_bound(metadata, Le, "le"),
        exclude_min=above is not None,
        allow_nan=False,
        allow_infinity=False,
    )


def values(annotation: Any, metadata: list[Any]) -> st.SearchStrategy[Any]:
    """Every value that a field of this annotation and these bounds takes."""
    if get_origin(annotation) in (Union, types.UnionType):
        return st.one_of(
            *(st.none() if a is type(None) else values(a, metadata) for a in get_args(annotation))
        )
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if get_origin(annotation) is tuple:
        inner = get_args(annotation)
        if len(inner) == 2 and inner[1] is Ellipsis:
            return st.lists(
                values(inner[0], []),
                min_size=_bound(metadata, MinLen, "min_length") or 0,
                max_size=3,
            ).map(tuple)
        return st.tuples(*(values(a, []) for a in inner))
    if annotation is Float32:
        return st.floats(width=32, allow_nan=False, allow_infinity=False)
    if issubclass(annotation, BaseModel):
        return models(annotation)
    if issubclass(annotation, Enum):
        return st.sampled_from(annotation)
    if annotation is str:
        return TEXT
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        lowest = _bound(metadata, Ge, "ge")
        return st.integers(min_value=-INT64 if lowest is None else lowest, max_value=INT64 - 1)
    if annotation is float:
        return _floats(metadata)
    raise TypeError(f"no strategy for {annotation}: add one here")


def models(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    """Every value of a model."""
    if model not in MODELS:
        fields = {
            name: values(info.annotation, info.metadata)
            for name, info in model.model_fields.items()
        }
        MODELS[model] = st.builds(model, **fields) if model is not Score else _scores(fields)
    return MODELS[model]


def _scores(fields: dict[str, Any]) -> st.SearchStrategy[Score]:
    floats = st.floats(allow_nan=False)
    scored = st.builds(Score, **fields | {"value": floats, "unscored_reason": st.none()})
    return scored | st.builds(
        Score, **fields | {"value": st.none(), "unscored_reason": st.sampled_from(UnscoredReason)}
    )


Path = tuple[str, ...]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    kinds = [
        a
        for a in (get_args(annotation) or (annotation,))
        if isinstance(a, type) and issubclass(a, BaseModel)
    ]
    return kinds[0] if kinds and get_origin(annotation) is not tuple else None


def leaves(model: type[BaseModel], prefix: Path = ()) -> Iterator[Path]:
    """Path of every field, those of models inside models too."""
    for name, info in model.model_fields.items():
        inner = _model_in(info.annotation)
        yield from leaves(inner, (*prefix, name)) if inner else [(*prefix, name)]


@st.composite
def changed(draw: st.DrawFn, model: type[BaseModel], value: BaseModel, path: Path) -> Any:
    """`value` with the field at `path` set to another value; a model that was None on the way is
    made first.
    """
    name, rest = path[0], path[1:]
    info = model.model_fields[name]
    old = getattr(value, name)
    if not rest:
        new = draw(values(info.annotation, info.metadata).filter(lambda v: v != old))
        return value.model_copy(update={name: new})
    inner = _model_in(info.annotation)
    assert inner is not None
    below = old if old is not None else draw(models(inner))
    return value.model_copy(update={name: draw(changed(inner, below, rest))})
