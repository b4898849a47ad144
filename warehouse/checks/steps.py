"""Rules for the messages of a dialogue and the steps of an episode.

They check the order of roles, and the results of tool calls.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from schemas.dialog import Role
from schemas.episode import StepKind
from warehouse.checks.rule import CheckContext, Row, Rule, no_fault

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


def messages(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages of the dialogue."""
    return [
        step
        for step in steps
        if step["role"] != Role.SYSTEM.value and step["kind"] == StepKind.MESSAGE.value
    ]


def consecutive_turns(name: str, why: str) -> Rule:
    """Return a rule: the messages' turns are numbered consecutively from 1."""

    @no_fault(name, why)
    def misnumbered(row: Row, context: CheckContext) -> str | None:
        last = 0
        for message in row["messages"]:
            if message["turn"] not in (last, last + 1) or message["turn"] < 1:
                return f"turn {message['turn']} follows turn {last}"
            last = message["turn"]
        return None

    return misnumbered


def repeated_role(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the fault of a turn in which a role has two messages, or None."""
    known: set[tuple[int, str]] = set()
    for message in messages:
        key = (message["turn"], message["role"])
        if key in known:
            return f"turn {key[0]}: role {key[1]} has two messages"
        known.add(key)
    return None


@no_fault("user_before_assistant", "an answer needs a question")
def _answer_before_question(row: Row, context: CheckContext) -> str | None:
    user_turns: set[int] = set()
    for step in row["messages"]:
        if step["role"] == Role.USER.value:
            user_turns.add(step["turn"])
        elif step["turn"] not in user_turns:
            return f"turn {step['turn']} has an answer before its question"
    return None


@no_fault("turn_and_role_once", "a turn has one answer, and one verdict")
def _role_repeated(row: Row, context: CheckContext) -> str | None:
    return repeated_role(row["messages"])


@no_fault("steps_before_their_message", "the message is the last step of a turn")
def _step_out_of_place(row: Row, context: CheckContext) -> str | None:
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


@no_fault("observation_of_a_call", "a tool result answers one call of its turn")
def _observation_without_call(row: Row, context: CheckContext) -> str | None:
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


@no_fault("calls_observed", "a model continues only after the result of its tool call")
def _call_without_observation(row: Row, context: CheckContext) -> str | None:
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


@no_fault("counts_not_negative", "costs are sums of tokens, seconds and calls")
def _negative_count(row: Row, context: CheckContext) -> str | None:
    for step in row["steps"]:
        for name in _COUNTS:
            if step[name] is not None and not step[name] >= 0:
                return f"turn {step['turn']}: {name} is {step[name]}"
    return None


STEP_RULES = (
    _answer_before_question,
    _role_repeated,
    _step_out_of_place,
    _observation_without_call,
    _call_without_observation,
    _negative_count,
)
