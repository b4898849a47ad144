"""Messages of pydantic's validation errors: each field with its value and the values that it accepts."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from pydantic import ValidationError

from schemas.errors import near_name
from schemas.outside.display import plain_line
from schemas.outside.fields import fields_at
from schemas.outside.secret_names import looks_secret, secret_in


def explain(error: ValidationError) -> str:
    """A validation error in one line: each field with its value and what it takes."""
    parts = []
    problems = error.errors()
    for problem in problems:
        if problem["type"] == "too_short" and any(
            _lies_in(other["loc"], problem["loc"]) for other in problems
        ):
            continue  # its members are not valid, and pydantic counts the valid ones
        place = ".".join(str(step) for step in problem["loc"]) or "the whole"
        known = ""
        if problem["type"] == "extra_forbidden":
            known = f"; no such field{_fields_instead(error.title, problem['loc'])}"
        if problem["type"] == "tuple_type":
            known = ": give a list, each member in a line that begins with `- `"
        if problem["type"] == "string_type" and isinstance(problem["input"], (int, float, date)):
            known = ": put it in quotes"
        shown = (
            plain_line(repr(_without_keys(problem["input"])), 60)
            if problem["type"] != "missing"
            else "missing"
        )
        if any(looks_secret(str(step)) for step in problem["loc"]):
            shown = "(not shown)"
        parts.append(
            f"{place} = {shown}: {problem['msg']}{known}"
            if shown != "missing"
            else f"{place} is missing"
        )
    return "; ".join(parts)


def _lies_in(place: tuple[int | str, ...], whole: tuple[int | str, ...]) -> bool:
    return len(place) > len(whole) and place[: len(whole)] == whole


def _fields_instead(title: str, place: tuple[int | str, ...]) -> str:
    """What may stand in the place of an unknown field: the one of nearly this name, or else all of them."""
    known = fields_at(title, place[:-1])
    if near := near_name(str(place[-1]), known):
        return f". Do you mean {near}?"
    return f". Known: {', '.join(known)}" if known else ""


def _without_keys(value: Any) -> Any:
    """The given values, without the values of fields, and the arguments of programs, that look like keys."""
    if isinstance(value, Mapping):
        return {
            name: "(not shown)" if looks_secret(str(name)) else _without_keys(item)
            for name, item in value.items()
        }
    words = (
        value.split()
        if isinstance(value, str)
        else [one for one in value if isinstance(one, str)]
        if _is_list(value)
        else []
    )
    if any(map(secret_in, words)):
        return "(not shown)"
    return [_without_keys(item) for item in value] if _is_list(value) else value


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))
