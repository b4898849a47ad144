"""Rules for staged dialogs and problems.

A run plays dialogs turn by turn, so a broken dialog costs calls before anybody notices it. A
problem without tests passes every program, and one without a prompt asks nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.content_id import ID_LENGTH
from schemas.dialog import Role
from schemas.problem import BASE_INSTRUCTION
from warehouse.checks import rule

DIGEST = f"^[0-9a-f]{{{ID_LENGTH}}}$"
_ROLES = frozenset(role.value for role in Role if role is not Role.TOOL)

_DATASET = ("benchmark", "dataset_version")
_dialogs = rule.TableRows(
    (
        *(*_DATASET, "dialog_id", "problem_id", "problem_digest", "row_digest"),
        *("turns.turn", "turns.role", "turns.content", "turns.do_eval"),
        *("context_id", "context_turns"),
    ),
    {"messages": lambda row: [turn for turn in row["turns"] if turn["role"] != Role.SYSTEM.value]},
)


def consecutive_turns(name: str, why: str) -> rule.Rule:
    """Return a rule: the messages' turns are numbered consecutively from 1."""

    @rule.no_fault(name, why)
    def misnumbered(row: rule.Row, context: rule.CheckContext) -> str | None:
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


@rule.no_fault("roles_known", "a dialogue has only the roles system, user and assistant")
def _unknown_role(row: rule.Row, context: rule.CheckContext) -> str | None:
    unknown = sorted({turn["role"] for turn in row["turns"]} - _ROLES)
    return f"unknown role {unknown[0]!r}" if unknown else None


@rule.no_fault("user_and_assistant_alternate", "each user turn has one answer")
def _not_alternating(row: rule.Row, context: rule.CheckContext) -> str | None:
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


@rule.no_fault("first_user_turn_present", "the first request to the model contains user turn 1")
def _no_first_question(row: rule.Row, context: rule.CheckContext) -> str | None:
    first = next(iter(row["messages"]), None)
    if first is None or first["role"] != Role.USER.value or first["turn"] != 1:
        return "the dialogue does not start with user turn 1"
    return None if (first["content"] or "").strip() else "user turn 1 is blank"


@rule.no_fault("no_blank_turn", "staging left a message blank; an answer still to be given is null")
def _blank_turn(row: rule.Row, context: rule.CheckContext) -> str | None:
    texts = (turn for turn in row["turns"] if turn["content"] is not None and not turn["do_eval"])
    blank = next((turn for turn in texts if not turn["content"].strip()), None)
    return f"turn {blank['turn']}: the message of role {blank['role']} is blank" if blank else None


@rule.no_fault("something_to_answer", "a dialog without model answers measures nothing")
def _nothing_to_answer(row: rule.Row, context: rule.CheckContext) -> str | None:
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


@rule.no_fault(
    "context_staged", "the dialog starts with the turns of its context", needs="context_turns"
)
def _no_context(row: rule.Row, context: rule.CheckContext) -> str | None:
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


@rule.no_fault(
    "dialog_has_problem", "the tests of a dialog are those of its problem", needs="problem_digests"
)
def _no_problem(row: rule.Row, context: rule.CheckContext) -> str | None:
    digests = context.problem_digests or {}
    if row["problem_id"] not in digests:
        return f"problem {row['problem_id']!r} was not staged"
    if digests[row["problem_id"]] != (row["problem_digest"] or row["row_digest"]):
        return f"problem {row['problem_id']!r} was staged from another raw row"
    return None


DIALOGS = rule.Suite(
    "dialogs",
    (
        rule.FrameRules(
            "one row per dialog",
            ("dialog_id",),
            _dialogs,
            (
                rule.not_empty("dialogs_staged", "a source that yields no row is faulty"),
                rule.present(
                    "dialog_id_present", "episodes refer to their dialog by this id", "dialog_id"
                ),
                rule.matches("dialog_id_not_blank", "an id cannot be blank", "dialog_id", r"\S"),
                rule.unique(
                    "dialog_id_unique",
                    "two dialogs with one id would share scores",
                    "dataset_version",
                    "dialog_id",
                ),
                rule.matches(
                    "row_digest_format",
                    "every episode id is computed from the row digest",
                    "row_digest",
                    DIGEST,
                ),
                rule.of_run("dialog_of_benchmark", "tables are partitioned by benchmark"),
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
        rule.each_present(
            "one row per staged problem",
            ("problem_id",),
            "problem_has_dialog",
            "each problem has at least one dialog",
            "the problem has no dialog, so no denominator would count it",
            needs="problem_digests",
        ),
        rule.whole_table(
            _dialogs,
            rule.one_value(
                "one_dataset_version", "a mean covers a single dataset version", "dataset_version"
            ),
        ),
    ),
    of_dataset=True,
)


_problems = rule.TableRows(
    (
        *(*_DATASET, "problem_id", "level", "prompt", "reference_code"),
        *("instructions.instruction_id", "instructions.text", "instructions.suite.tests"),
        *("source_file", "source_line", "row_digest"),
    )
)


@rule.no_fault("base_instruction_first", "turn 1 of every dialog is this instruction")
def _base_not_first(row: rule.Row, context: rule.CheckContext) -> str | None:
    ids = [instruction["instruction_id"] for instruction in row["instructions"]]
    if not ids or ids[0] != BASE_INSTRUCTION:
        return f"instruction 1 is {ids[0] if ids else None!r}, expected {BASE_INSTRUCTION!r}"
    return None


@rule.no_fault("instruction_ids_unique", "verdicts are keyed by instruction")
def _instruction_twice(row: rule.Row, context: rule.CheckContext) -> str | None:
    ids = [instruction["instruction_id"] for instruction in row["instructions"]]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    return f"instruction {twice[0]!r} occurs {ids.count(twice[0])} times" if twice else None


@rule.no_fault("tests_not_empty", "every program passes an empty test")
def _no_tests(row: rule.Row, context: rule.CheckContext) -> str | None:
    for instruction in row["instructions"]:
        tests = instruction["suite"]["tests"]
        if not tests or not all(test.strip() for test in tests):
            return (
                f"instruction {instruction['instruction_id']!r} has an empty test: every program "
                "would pass it"
            )
    return None


@rule.no_fault("prompt_not_blank", "the prompt is the text of turn 1")
def _blank_prompt(row: rule.Row, context: rule.CheckContext) -> str | None:
    return None if (row["prompt"] or "").strip() else "the prompt is blank"


@rule.no_fault("instruction_text_not_blank", "each turn is one instruction", blocking=False)
def _blank_instruction(row: rule.Row, context: rule.CheckContext) -> str | None:
    blank = [i["instruction_id"] for i in row["instructions"] if not (i["text"] or "").strip()]
    return f"instruction {blank[0]!r} has no text" if blank else None


@rule.no_fault("reference_code_present", "gold answers verify the tests", blocking=False)
def _no_reference(row: rule.Row, context: rule.CheckContext) -> str | None:
    return (
        None
        if (row["reference_code"] or "").strip()
        else "there is no reference code, so control:gold cannot answer"
    )


@rule.no_fault(
    "input_rows_accounted_for", "every raw row is either staged or quarantined", needs="n_input"
)
def _rows_lost(row: rule.Row, context: rule.CheckContext) -> str | None:
    staged, quarantined, read = len(row["rows"]), context.n_quarantined, context.n_input
    return (
        None
        if staged + quarantined == read
        else f"{staged} staged + {quarantined} quarantined, but {read} rows were read"
    )


PROBLEMS = rule.Suite(
    "problems",
    (
        rule.FrameRules(
            "one row per problem",
            ("problem_id", "source_file", "source_line"),
            _problems,
            (
                rule.not_empty("problems_staged", "a source that yields no row is faulty"),
                rule.present(
                    "problem_id_present",
                    "recordings and verdicts refer to their problem by this id",
                    "problem_id",
                ),
                rule.matches("problem_id_not_blank", "an id cannot be blank", "problem_id", r"\S"),
                rule.unique(
                    "problem_id_unique",
                    "two problems with one id would share answers",
                    "dataset_version",
                    "problem_id",
                ),
                rule.present("level_present", "results are grouped by level", "level"),
                rule.matches("level_not_blank", "results are grouped by level", "level", r"\S"),
                rule.matches(
                    "row_digest_format",
                    "every episode id is computed from the row digest",
                    "row_digest",
                    DIGEST,
                ),
                rule.at_least(
                    "source_line_from_one", "the line locates the raw row", "source_line", 1
                ),
                rule.of_run("problem_of_benchmark", "tables are partitioned by benchmark"),
                _base_not_first,
                _instruction_twice,
                _no_tests,
                _blank_prompt,
                _blank_instruction,
                _no_reference,
            ),
        ),
        rule.whole_table(
            _problems,
            rule.one_value(
                "one_dataset_version", "a mean covers a single dataset version", "dataset_version"
            ),
            _rows_lost,
        ),
    ),
    of_dataset=True,
)
