"""Messages of pydantic's validation errors: each field with its value and the accepted values."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from pydantic import ValidationError

from schemas.errors import near_name
from schemas.outside.display import plain_line
from schemas.outside.fields import fields_at
from schemas.outside.secret_names import looks_secret, secret_in


def explain(error: ValidationError) -> str:
    """Describe a validation error in one line: each field, its value and the accepted values."""
    parts = []
    problems = error.errors()
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
