"""Rules for staged dialogs.

A run plays dialogs turn by turn, so a broken dialog costs calls before anybody notices it.
"""

import pyarrow as pa

from schemas.content_id import ID_LENGTH
from schemas.dialog import Role
from warehouse.checks.rule import (
    CheckContext,
    FrameRules,
    Row,
    Suite,
    each_present,
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
from warehouse.checks.steps import consecutive_turns, repeated_role

DIGEST = f"^[0-9a-f]{{{ID_LENGTH}}}$"
_ROLES = frozenset(role.value for role in Role if role is not Role.TOOL)

_plain_rows = plain_rows(
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


def _rows(data: pa.Table, context: CheckContext) -> list[Row]:
    return [
        {**row, "messages": [turn for turn in row["turns"] if turn["role"] != Role.SYSTEM.value]}
        for row in _plain_rows(data, context)
    ]


@no_fault("roles_known", "a dialogue has only the roles system, user and assistant")
def _unknown_role(row: Row, context: CheckContext) -> str | None:
    unknown = sorted({turn["role"] for turn in row["turns"]} - _ROLES)
    return f"unknown role {unknown[0]!r}" if unknown else None


@no_fault("user_and_assistant_alternate", "each user turn has one answer")
def _not_alternating(row: Row, context: CheckContext) -> str | None:
    messages = row["messages"]
    if any(
        turn["role"] == Role.SYSTEM.value
        for turn in row["turns"][len(row["turns"]) - len(messages) :]
    ):
        return "a system turn comes after the start of the dialogue"
    if all(turn["role"] == Role.USER.value for turn in messages):
        return repeated_role(messages)
    for number, turn in enumerate(messages):
        wanted = (Role.USER, Role.ASSISTANT)[number % 2].value
        if turn["role"] != wanted:
            return f"turn {turn['turn']}: role is {turn['role']}, expected {wanted}"
    return repeated_role(messages)


@no_fault("first_user_turn_present", "the first request to the model contains user turn 1")
def _no_first_question(row: Row, context: CheckContext) -> str | None:
    first = next(iter(row["messages"]), None)
    if first is None or first["role"] != Role.USER.value or first["turn"] != 1:
        return "the dialogue does not start with user turn 1"
    return None if (first["content"] or "").strip() else "user turn 1 is blank"


@no_fault("no_blank_turn", "staging left a message blank; an answer still to be given is null")
def _blank_turn(row: Row, context: CheckContext) -> str | None:
    texts = (turn for turn in row["turns"] if turn["content"] is not None and not turn["do_eval"])
    blank = next((turn for turn in texts if not turn["content"].strip()), None)
    return f"turn {blank['turn']}: the message of role {blank['role']} is blank" if blank else None


@no_fault("something_to_answer", "a dialog without model answers measures nothing")
def _nothing_to_answer(row: Row, context: CheckContext) -> str | None:
    answers = {turn["turn"]: turn for turn in row["turns"] if turn["role"] == Role.ASSISTANT.value}
    user_turns = [turn["turn"] for turn in row["turns"] if turn["role"] == Role.USER.value]
    is_scripted = all(
        t in answers and answers[t]["content"] is not None and not answers[t]["do_eval"]
        for t in user_turns
    )
    return (
        "all answers are scripted: the model is never called"
        if user_turns and is_scripted
        else None
    )


@no_fault(
    "context_staged", "the dialog starts with the turns of its context", needs="context_turns"
)
def _no_context(row: Row, context: CheckContext) -> str | None:
    if row["context_id"] is None:
        return (
            f"context_turns is {row['context_turns']}, but there is no context"
            if row["context_turns"]
            else None
        )
    n_turns = (context.context_turns or {}).get(row["context_id"])
    if n_turns is None:
        return f"context {row['context_id']!r} was not staged"
    return (
        None
        if 0 < row["context_turns"] <= n_turns
        else f"context_turns is {row['context_turns']}, but the context has {n_turns} turns"
    )


@no_fault(
    "dialog_has_problem", "the tests of a dialog are those of its problem", needs="problem_digests"
)
def _no_problem(row: Row, context: CheckContext) -> str | None:
    digests = context.problem_digests or {}
    if row["problem_id"] not in digests:
        return f"problem {row['problem_id']!r} was not staged"
    if digests[row["problem_id"]] != (row["problem_digest"] or row["row_digest"]):
        return f"problem {row['problem_id']!r} was staged from another raw row"
    return None


SUITE = Suite(
    "dialogs",
    (
        FrameRules(
            "one row per dialog",
            ("dialog_id",),
            _rows,
            (
                not_empty("dialogs_staged", "a source that yields no row is faulty"),
                present(
                    "dialog_id_present", "episodes refer to their dialog by this id", "dialog_id"
                ),
                matches("dialog_id_not_blank", "an id cannot be blank", "dialog_id", r"\S"),
                unique(
                    "dialog_id_unique",
                    "two dialogs with one id would share scores",
                    "dataset_version",
                    "dialog_id",
                ),
                matches(
                    "row_digest_format",
                    "every episode id is computed from the row digest",
                    "row_digest",
                    DIGEST,
                ),
                of_run("dialog_of_benchmark", "tables are partitioned by benchmark"),
                _unknown_role,
                consecutive_turns(
                    "turns_numbered_from_one", "turn n of scores is turn n of the dialog"
                ),
                _not_alternating,
                _no_first_question,
                _blank_turn,
                _nothing_to_answer,
                _no_context,
                _no_problem,
            ),
        ),
        each_present(
            "one row per staged problem",
            ("problem_id",),
            lambda context: ((problem,) for problem in context.problem_digests or {}),
            "problem_has_dialog",
            "each problem has at least one dialog",
            "the problem has no dialog, so no denominator would count it",
            needs="problem_digests",
        ),
        whole_table(
            _rows,
            one_value(
                "one_dataset_version", "a mean covers a single dataset version", "dataset_version"
            ),
        ),
    ),
    of_dataset=True,
)
