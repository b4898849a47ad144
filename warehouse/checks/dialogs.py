"""What must hold of staged dialogs: a run asks them turn by turn, so a broken one costs calls before anybody sees it."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from schemas.content_id import ID_LENGTH
from schemas.dialog import Role
from warehouse.checks.context import CheckContext
from warehouse.checks.rule import (
    FrameRules,
    Row,
    Suite,
    matches,
    no_fault,
    not_empty,
    of_run,
    one_value,
    plain_rows,
    present,
    unique,
    whole_table,
)

DIGEST = f"^[0-9a-f]{{{ID_LENGTH}}}$"
_ROLES = frozenset(role.value for role in Role if role is not Role.TOOL)

_rows = plain_rows(
    "benchmark",
    "dataset_version",
    "dialog_id",
    "problem_id",
    "problem_digest",
    "row_digest",
    "turns",
    "context_id",
    "context_turns",
)


def _spoken(row: Row) -> list[Mapping[str, Any]]:
    return [turn for turn in row["turns"] if turn["role"] != Role.SYSTEM.value]


def _unknown_role(row: Row, context: CheckContext) -> str | None:
    unknown = sorted({turn["role"] for turn in row["turns"]} - _ROLES)
    return f"unknown role {unknown[0]!r}" if unknown else None


def _misnumbered(row: Row, context: CheckContext) -> str | None:
    last = 0
    for turn in _spoken(row):
        if turn["turn"] not in (last, last + 1) or turn["turn"] < 1:
            return f"turn {turn['turn']} follows turn {last}"
        last = turn["turn"]
    return None


def _not_alternating(row: Row, context: CheckContext) -> str | None:
    spoken = _spoken(row)
    if any(
        turn["role"] == Role.SYSTEM.value
        for turn in row["turns"][len(row["turns"]) - len(spoken) :]
    ):
        return "a system turn stands after the dialogue's begin"
    if all(turn["role"] == Role.USER.value for turn in spoken):
        return _twice(spoken)
    for place, turn in enumerate(spoken):
        wanted = (Role.USER, Role.ASSISTANT)[place % 2].value
        if turn["role"] != wanted:
            return f"turn {turn['turn']}: {turn['role']} speaks where {wanted} should"
    return _twice(spoken)


def _twice(spoken: Sequence[Mapping[str, Any]]) -> str | None:
    said = [(turn["turn"], turn["role"]) for turn in spoken]
    again = (
        next((key for place, key in enumerate(said) if key in said[:place]), None)
        if len(set(said)) < len(said)
        else None
    )
    return f"turn {again[0]}: {again[1]} speaks twice" if again else None


def _no_first_question(row: Row, context: CheckContext) -> str | None:
    first = next(iter(_spoken(row)), None)
    if first is None or first["role"] != Role.USER.value or first["turn"] != 1:
        return "no user turn 1 at the begin"
    return None if (first["content"] or "").strip() else "user turn 1 says nothing"


def _blank_turn(row: Row, context: CheckContext) -> str | None:
    said = (turn for turn in row["turns"] if turn["content"] is not None and not turn["do_eval"])
    blank = next((turn for turn in said if not turn["content"].strip()), None)
    return f"turn {blank['turn']}: {blank['role']} says nothing" if blank else None


def _nothing_to_answer(row: Row, context: CheckContext) -> str | None:
    answers = {turn["turn"]: turn for turn in row["turns"] if turn["role"] == Role.ASSISTANT.value}
    asked = [turn["turn"] for turn in row["turns"] if turn["role"] == Role.USER.value]
    is_scripted = all(
        t in answers and answers[t]["content"] is not None and not answers[t]["do_eval"]
        for t in asked
    )
    return (
        "a script gives every answer: the model is asked for none"
        if asked and is_scripted
        else None
    )


def _no_context(row: Row, context: CheckContext) -> str | None:
    if row["context_id"] is None:
        return f"{row['context_turns']} turns of no context" if row["context_turns"] else None
    n_turns = (context.context_turns or {}).get(row["context_id"])
    if n_turns is None:
        return f"no context {row['context_id']!r} was staged"
    return (
        None
        if 0 < row["context_turns"] <= n_turns
        else f"{row['context_turns']} turns of a context that has {n_turns}"
    )


def _no_problem(row: Row, context: CheckContext) -> str | None:
    digests = context.problem_digests or {}
    if row["problem_id"] not in digests:
        return f"no problem {row['problem_id']!r} was staged"
    if digests[row["problem_id"]] != (row["problem_digest"] or row["row_digest"]):
        return f"problem {row['problem_id']!r} was staged from another raw row"
    return None


def _covered(data: pa.Table, context: CheckContext) -> list[Row]:
    with_dialog = set(data["problem_id"].to_pylist())
    return [
        {"problem_id": p, "has_dialog": p in with_dialog} for p in context.problem_digests or {}
    ]


def _no_dialog(row: Row, context: CheckContext) -> str | None:
    return (
        None
        if row["has_dialog"]
        else "the problem has no dialog: it would vanish from every denominator"
    )


SUITE = Suite(
    "dialogs",
    (
        FrameRules(
            "one row per dialog",
            ("dialog_id",),
            _rows,
            ("dataset_version", "dialog_id", "problem_id", "row_digest"),
            (
                not_empty(
                    "dialogs_staged",
                    "staging that yields nothing is a fault of the source, not an empty benchmark",
                ),
                present("dialog_id_present", "episodes name their dialog by it", "dialog_id"),
                matches("dialog_id_not_blank", "a blank id names nothing", "dialog_id", r"\S"),
                unique(
                    "dialog_id_unique",
                    "two dialogs of one name would share scores",
                    "dataset_version",
                    "dialog_id",
                ),
                matches(
                    "row_digest_format",
                    "it is an ingredient of every episode id",
                    "row_digest",
                    DIGEST,
                ),
                no_fault("dialog_of_benchmark", "tables are kept by benchmark", of_run),
                no_fault(
                    "roles_known", "the engine seats system, user and assistant only", _unknown_role
                ),
                no_fault(
                    "turns_numbered_from_one",
                    "turn n of scores is turn n of the dialog",
                    _misnumbered,
                ),
                no_fault(
                    "user_and_assistant_alternate",
                    "each user turn is answered once",
                    _not_alternating,
                ),
                no_fault(
                    "first_user_turn_present",
                    "the first call to the model is made from it",
                    _no_first_question,
                ),
                no_fault(
                    "no_blank_turn",
                    "a blank message is a fault of staging; an answer to be given is null",
                    _blank_turn,
                ),
                no_fault(
                    "something_to_answer",
                    "a dialog in which nobody is asked tells nothing",
                    _nothing_to_answer,
                ),
                no_fault(
                    "context_staged",
                    "the dialog begins with it",
                    _no_context,
                    needs="context_turns",
                ),
                no_fault(
                    "dialog_has_problem",
                    "tests come from the problem",
                    _no_problem,
                    needs="problem_digests",
                ),
            ),
        ),
        FrameRules(
            "one row per staged problem",
            ("problem_id",),
            _covered,
            ("problem_id", "has_dialog"),
            (
                no_fault(
                    "problem_has_dialog",
                    "each problem is asked at least once",
                    _no_dialog,
                    needs="problem_digests",
                ),
            ),
        ),
        whole_table(
            _rows,
            one_value(
                "one_dataset_version", "versions are never mixed in one mean", "dataset_version"
            ),
        ),
    ),
    of_dataset=True,
)
