"""Rules for staged problems.

A problem without tests passes every program, and one without a prompt asks nothing.
"""

from schemas.problem import BASE_INSTRUCTION
from warehouse.checks.dialogs import DIGEST
from warehouse.checks.rule import (
    CheckContext,
    FrameRules,
    Row,
    Suite,
    at_least,
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

_rows = plain_rows(
    "benchmark",
    "dataset_version",
    "problem_id",
    "level",
    "prompt",
    "instructions",
    "reference_code",
    "source_file",
    "source_line",
    "row_digest",
)


@no_fault("base_instruction_first", "turn 1 of every dialog is this instruction")
def _base_not_first(row: Row, context: CheckContext) -> str | None:
    ids = [instruction["instruction_id"] for instruction in row["instructions"]]
    if not ids or ids[0] != BASE_INSTRUCTION:
        return f"instruction 1 is {ids[0] if ids else None!r}, expected {BASE_INSTRUCTION!r}"
    return None


@no_fault("instruction_ids_unique", "verdicts are keyed by instruction")
def _instruction_twice(row: Row, context: CheckContext) -> str | None:
    ids = [instruction["instruction_id"] for instruction in row["instructions"]]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    return f"instruction {twice[0]!r} occurs {ids.count(twice[0])} times" if twice else None


@no_fault("tests_not_empty", "every program passes an empty test")
def _no_tests(row: Row, context: CheckContext) -> str | None:
    for instruction in row["instructions"]:
        tests = instruction["suite"]["tests"]
        if not tests or not all(test.strip() for test in tests):
            return (
                f"instruction {instruction['instruction_id']!r} has an empty test: every program "
                "would pass it"
            )
    return None


@no_fault("prompt_not_blank", "the prompt is the text of turn 1")
def _blank_prompt(row: Row, context: CheckContext) -> str | None:
    return None if (row["prompt"] or "").strip() else "the prompt is blank"


@no_fault("instruction_text_not_blank", "each turn is one instruction", blocking=False)
def _blank_instruction(row: Row, context: CheckContext) -> str | None:
    blank = [i["instruction_id"] for i in row["instructions"] if not (i["text"] or "").strip()]
    return f"instruction {blank[0]!r} has no text" if blank else None


@no_fault("reference_code_present", "gold answers verify the tests", blocking=False)
def _no_reference(row: Row, context: CheckContext) -> str | None:
    return (
        None
        if (row["reference_code"] or "").strip()
        else "there is no reference code, so control:gold cannot answer"
    )


@no_fault(
    "input_rows_accounted_for", "every raw row is either staged or quarantined", needs="n_input"
)
def _rows_lost(row: Row, context: CheckContext) -> str | None:
    staged, quarantined, read = len(row["rows"]), context.n_quarantined, context.n_input
    return (
        None
        if staged + quarantined == read
        else f"{staged} staged + {quarantined} quarantined, but {read} rows were read"
    )


SUITE = Suite(
    "problems",
    (
        FrameRules(
            "one row per problem",
            ("problem_id", "source_file", "source_line"),
            _rows,
            (
                not_empty("problems_staged", "a source that yields no row is faulty"),
                present(
                    "problem_id_present",
                    "recordings and verdicts refer to their problem by this id",
                    "problem_id",
                ),
                matches("problem_id_not_blank", "an id cannot be blank", "problem_id", r"\S"),
                unique(
                    "problem_id_unique",
                    "two problems with one id would share answers",
                    "dataset_version",
                    "problem_id",
                ),
                present("level_present", "results are grouped by level", "level"),
                matches("level_not_blank", "results are grouped by level", "level", r"\S"),
                matches(
                    "row_digest_format",
                    "every episode id is computed from the row digest",
                    "row_digest",
                    DIGEST,
                ),
                at_least("source_line_from_one", "the line locates the raw row", "source_line", 1),
                of_run("problem_of_benchmark", "tables are partitioned by benchmark"),
                _base_not_first,
                _instruction_twice,
                _no_tests,
                _blank_prompt,
                _blank_instruction,
                _no_reference,
            ),
        ),
        whole_table(
            _rows,
            one_value(
                "one_dataset_version", "a mean covers a single dataset version", "dataset_version"
            ),
            _rows_lost,
        ),
    ),
    of_dataset=True,
)
