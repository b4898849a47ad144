"""What must hold of the steps of an episode: who speaks when, and which result belongs to which call.

Each rule returns what is wrong with a row, or None.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from schemas.dialog import Role
from schemas.episode import StepKind
from warehouse.checks.context import CheckContext
from warehouse.checks.rule import Row

_COUNTS = ("input_tokens", "output_tokens", "latency_s", "n_calls")
_STEP_FIELDS = ("turn", "role", "kind", "call_id", "served_model", "labels", *_COUNTS)


def without_texts(steps: pa.ChunkedArray) -> list[list[Mapping[str, Any]]]:
    """The steps of each episode without what was said: a suite needs no megabytes of answers."""
    slim: list[list[Mapping[str, Any]]] = []
    for chunk in steps.chunks:
        said = chunk.flatten()
        flat = pa.table(
            {
                **{name: said.field(name) for name in _STEP_FIELDS},
                "asked": _call_ids(said.field("calls")),
            }
        ).to_pylist()
        start = 0
        for length in chunk.value_lengths().to_pylist():
            slim.append(flat[start : start + (length or 0)])
            start += length or 0
    return slim


def _call_ids(calls: pa.ListArray) -> pa.ListArray:
    """The ids of each step's calls, without names and arguments."""
    return pa.ListArray.from_arrays(calls.offsets, calls.values.field("call_id"))


def spoken(row: Row) -> list[Mapping[str, Any]]:
    """The messages of the dialogue."""
    return [
        step
        for step in row["steps"]
        if step["role"] != Role.SYSTEM.value and step["kind"] == StepKind.MESSAGE.value
    ]


def turns_broken(row: Row, context: CheckContext) -> str | None:
    """The turns are not numbered one after the other from 1."""
    last = 0
    for step in spoken(row):
        if step["turn"] not in (last, last + 1) or step["turn"] < 1:
            return f"turn {step['turn']} follows turn {last}"
        last = step["turn"]
    return None


def answer_before_question(row: Row, context: CheckContext) -> str | None:
    """A turn is answered before it is asked."""
    asked: set[int] = set()
    for step in spoken(row):
        if step["role"] == Role.USER.value:
            asked.add(step["turn"])
        elif step["turn"] not in asked:
            return f"turn {step['turn']} is answered before it is asked"
    return None


def said_twice(row: Row, context: CheckContext) -> str | None:
    """Somebody speaks twice in a turn."""
    said: set[tuple[int, str]] = set()
    for step in spoken(row):
        key = (step["turn"], step["role"])
        if key in said:
            return f"turn {key[0]}: {key[1]} speaks twice"
        said.add(key)
    return None


def step_out_of_place(row: Row, context: CheckContext) -> str | None:
    """A step stands at another seat or turn than the message that it leads to."""
    last, asks = 0, True
    for step in row["steps"]:
        if step["role"] == Role.SYSTEM.value:
            continue
        if step["kind"] == StepKind.MESSAGE.value:
            last, asks = step["turn"], step["role"] == Role.ASSISTANT.value
            continue
        seat, turn = (Role.USER.value, last + 1) if asks else (Role.ASSISTANT.value, last)
        if (step["turn"], step["role"]) not in ((turn, seat), (turn, Role.TOOL.value)):
            return (
                f"turn {step['turn']}: a step of {step['role']} stands where {seat} has turn {turn}"
            )
    return None


def observation_without_call(row: Row, context: CheckContext) -> str | None:
    """An observation answers no open call of its turn."""
    asked: set[str] = set()
    for step in row["steps"]:
        if step["kind"] == StepKind.MESSAGE.value:
            asked = set()
        if step["kind"] == StepKind.OBSERVATION.value:
            if step["call_id"] not in asked:
                return f"turn {step['turn']}: an observation answers {step['call_id']!r}, which is no open call of the turn"
            asked.remove(step["call_id"])
        asked.update(step["asked"] or ())
    return None


def call_without_observation(row: Row, context: CheckContext) -> str | None:
    """A message comes while a call is unanswered."""
    asked: set[str] = set()
    for step in row["steps"]:
        if step["kind"] == StepKind.MESSAGE.value and asked:
            return f"turn {step['turn']}: {step['role']} speaks while {', '.join(sorted(asked)[:5])} is unanswered"
        asked.update(step["asked"] or ())
        asked.discard(step["call_id"])
    return None


def negative_count(row: Row, context: CheckContext) -> str | None:
    """A count of tokens, seconds or calls is below zero, or no number."""
    for step in row["steps"]:
        for name in _COUNTS:
            if step[name] is not None and not step[name] >= 0:
                return f"turn {step['turn']}: {name} is {step[name]}"
    return None
