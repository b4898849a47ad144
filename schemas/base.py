"""Base class of all models: frozen, strict about unknown fields, with tuples instead of lists."""

import ast
import inspect
import sys
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_ADDED = "added_later"


class Frozen(BaseModel):
    """Immutable value that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class RunRow(Frozen):
    """Row of a table about one run."""

    run_id: str
    benchmark: str
    model: str


class EpisodeRow(RunRow):
    """Row of a table about one episode of a run."""

    episode_id: str
    problem_id: str
    sample: int = Field(ge=0)


def added_later(default: Any, **constraints: Any) -> Any:
    """Declare a field that was added after ids were first stored.

    A content id leaves the field out while it has its default, so older ids stay equal.

    Args:
        default: value of the field in all older specs. Never change it: ids that leave it out would
            change.
        constraints: keyword arguments of pydantic's `Field`.
    """
    return Field(default=default, json_schema_extra={_ADDED: True}, **constraints)


def fields_of_id(value: BaseModel) -> tuple[str, ...]:
    """Return the names of the fields that a value's content id is made of, in the model's order."""
    names, later = _names(type(value)), _later_fields(type(value))
    unset = {name for name, default in later.items() if getattr(value, name) == default}
    return tuple(name for name in names if name not in unset) if unset else names


@cache
def _names(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(model.model_fields)


@cache
def _later_fields(model: type[BaseModel]) -> dict[str, Any]:
    """Map each field that was declared by `added_later` to its default."""
    extras = {
        name: (field.json_schema_extra, field.default) for name, field in model.model_fields.items()
    }
    return {
        name: default
        for name, (extra, default) in extras.items()
        if isinstance(extra, dict) and extra.get(_ADDED)
    }


@cache
def field_texts(model: type[BaseModel]) -> dict[str, str]:
    """Map each field of a model and of its bases to the docstring below it."""
    texts: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if owner is not BaseModel and issubclass(owner, BaseModel):
            texts |= _texts_in(owner.__module__)[owner.__name__]
    return texts


@cache
def _texts_in(module: str) -> dict[str, dict[str, str]]:
    """Map each class of a module to its fields' docstrings. A module is parsed once: 5 ms."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _texts_of(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _texts_of(owner: ast.ClassDef) -> dict[str, str]:
    return {
        ast.unparse(field.target): inspect.cleandoc(str(text.value.value))
        for field, text in zip(owner.body, owner.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }
