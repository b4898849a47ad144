"""Rules for the steps of an episode: order of roles, and results of tool calls.

Each rule returns the fault of a row, or None.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from schemas.dialog import Role
from schemas.episode import StepKind
from warehouse.checks.rule import CheckContext, Row

_COUNTS = ("input_tokens", "output_tokens", "latency_s", "n_calls")
_STEP_FIELDS = ("turn", "role", "kind", "call_id", "served_model", "labels", *_COUNTS)


def without_texts(steps: pa.ChunkedArray) -> list[list[Mapping[str, Any]]]:
    """Return the steps of each episode without their texts, which can be megabytes long."""
    slim: list[list[Mapping[str, Any]]] = []
    for chunk in steps.chunks:
        columns = chunk.flatten()
        flat = pa.table(
            {
                **{name: columns.field(name) for name in _STEP_FIELDS},
                "call_ids": _call_ids(columns.field("calls")),
            }
        ).to_pylist()
        start = 0
        for length in chunk.value_lengths().to_pylist():
            slim.append(flat[start : start + (length or 0)])
            start += length or 0
    return slim


def _call_ids(calls: pa.ListArray) -> pa.ListArray:
    """Return the ids of each step's tool calls, without names and arguments."""
    return pa.ListArray.from_arrays(calls.offsets, calls.values.field("call_id"))


def messages(row: Row) -> list[Mapping[str, Any]]:
    """Return the messages of the dialogue."""
    return [
        step
        for step in row["steps"]
        if step["role"] != Role.SYSTEM.value and step["kind"] == StepKind.MESSAGE.value
    ]


def turns_broken(row: Row, context: CheckContext) -> str | None:
    """Return the fault of turns that are not numbered consecutively from 1, or None."""
    last = 0
    for step in messages(row):
        if step["turn"] not in (last, last + 1) or step["turn"] < 1:
            return f"turn {step['turn']} follows turn {last}"
        last = step["turn"]
    return None


def answer_before_question(row: Row, context: CheckContext) -> str | None:
    """Return the fault of a turn whose answer comes before its question, or None."""
    user_turns: set[int] = set()
    for step in messages(row):
        if step["role"] == Role.USER.value:
            user_turns.add(step["turn"])
        elif step["turn"] not in user_turns:
            return f"turn {step['turn']} has an answer before its question"
    return None


def role_repeated(row: Row, context: CheckContext) -> str | None:
    """Return the fault of a turn in which a role has two messages, or None."""
    seats: set[tuple[int, str]] = set()
    for step in messages(row):
        key = (step["turn"], step["role"])
        if key in seats:
            return f"turn {key[0]}: role {key[1]} has two messages"
        seats.add(key)
    return None


def step_out_of_place(row: Row, context: CheckContext) -> str | None:
    """Return the fault of a step whose role or turn differs from its message's, or None."""
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
                f"turn {step['turn']}: a step has role {step['role']}, expected role {seat} "
                f"and turn {turn}"
            )
    return None


def observation_without_call(row: Row, context: CheckContext) -> str | None:
    """Return the fault of an observation that answers no open call of its turn, or None."""
    open_calls: set[str] = set()
    for step in row["steps"]:
        if step["kind"] == StepKind.MESSAGE.value:
            open_calls = set()
        if step["kind"] == StepKind.OBSERVATION.value:
            if step["call_id"] not in open_calls:
                return (
                    f"turn {step['turn']}: an observation answers {step['call_id']!r}, which is "
                    "not an open call of the turn"
                )
            open_calls.remove(step["call_id"])
        open_calls.update(step["call_ids"] or ())
    return None


def call_without_observation(row: Row, context: CheckContext) -> str | None:
    """Return the fault of a message that comes while a tool call is unanswered, or None."""
    open_calls: set[str] = set()
    for step in row["steps"]:
        if step["kind"] == StepKind.MESSAGE.value and open_calls:
            return (
                f"turn {step['turn']}: {step['role']} has a message while the tool call "
                f"{', '.join(sorted(open_calls)[:5])} is unanswered"
            )
        open_calls.update(step["call_ids"] or ())
        open_calls.discard(step["call_id"])
    return None


def negative_count(row: Row, context: CheckContext) -> str | None:
    """Return the fault of a negative or undefined count of tokens, seconds or calls, or None."""
    for step in row["steps"]:
        for name in _COUNTS:
            if step[name] is not None and not step[name] >= 0:
                return f"turn {step['turn']}: {name} is {step[name]}"
    return None
