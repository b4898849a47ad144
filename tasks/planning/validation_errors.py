"""Messages of pydantic's validation errors: each field with its value and the accepted values."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from schemas.base import Frozen
from schemas.errors import near_name
from schemas.outside.display import plain_line
from schemas.outside.secret_names import looks_secret, secret_in


def explain(error: ValidationError) -> str:
    """Describe a validation error in one line: each field, its value and the accepted values."""
    parts = []
    problems = _with_joined_unions(error.errors())
    for problem in problems:
        if problem["type"] == "too_short" and any(
            _lies_in(other["loc"], problem["loc"]) for other in problems
        ):
            continue  # pydantic counts only valid members, and reports the invalid ones as well
        place = ".".join(str(step) for step in problem["loc"]) or "the whole"
        remedy = ""
        if problem["type"] == "extra_forbidden":
            remedy = f"; no such field{_fields_instead(error.title, problem['loc'])}"
        if problem["type"] == "tuple_type":
            remedy = ": write a list, each member in a line that begins with `- `"
        if problem["type"] == "model_type" and (fields := fields_at(error.title, problem["loc"])):
            problem["msg"] = f"Input should be a mapping of fields, such as `{fields[0]}: VALUE`"
        if problem["type"] == "value_error" and not problem["loc"]:
            parts.append(problem["msg"].removeprefix("Value error, "))
            continue
        if problem["type"] == "string_type" and isinstance(problem["input"], (int, float, date)):
            remedy = ": put it in quotes"
        shown = (
            plain_line(repr(_without_keys(problem["input"])), 60)
            if problem["type"] != "missing"
            else "missing"
        )
        if any(looks_secret(str(step)) for step in problem["loc"]):
            shown = "(not shown)"
        parts.append(
            f"{place} = {shown}: {problem['msg']}{remedy}"
            if shown != "missing"
            else f"{place} is missing"
        )
    return "; ".join(parts)


def _with_joined_unions(problems: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Join the problems of a value that fits no type of a union. Pydantic reports one for each."""
    joined: list[ErrorDetails] = []
    for problem in problems:
        *place, branch = problem["loc"] or ("",)
        before = joined[-1] if joined else None
        if not _UNION_BRANCH.search(str(branch)):
            joined.append(problem)
        elif before is not None and before["loc"] == tuple(place):
            also = problem["msg"].removeprefix("Input should be ")
            before["msg"] += f", or {also}"
        else:
            joined.append({**problem, "loc": tuple(place)})
    return joined


_UNION_BRANCH = re.compile(r"^(constrained-\w+|literal\[.*\]|float|int|str|bool)$")
"""Pattern of the last step of pydantic's place of a problem within a union."""


def _lies_in(place: tuple[int | str, ...], whole: tuple[int | str, ...]) -> bool:
    return len(place) > len(whole) and place[: len(whole)] == whole


def _fields_instead(title: str, place: tuple[int | str, ...]) -> str:
    """Return a hint after an unknown field: the field with the most similar name, or all fields."""
    fields = fields_at(title, place[:-1])
    if near := near_name(str(place[-1]), fields):
        return f". Do you mean {near}?"
    return f". Known: {', '.join(fields)}" if fields else ""


def _without_keys(value: Any) -> Any:
    """Return the value without field values and program arguments that look like keys."""
    if isinstance(value, Mapping):
        return {
            name: "(not shown)" if looks_secret(str(name)) else _without_keys(item)
            for name, item in value.items()
        }
    words = (
        value.split()
        if isinstance(value, str)
        else [item for item in value if isinstance(item, str)]
        if _is_list(value)
        else []
    )
    if any(map(secret_in, words)):
        return "(not shown)"
    return [_without_keys(item) for item in value] if _is_list(value) else value


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


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
