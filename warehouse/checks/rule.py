"""Rules and suites as data.

This module only names Great Expectations, since importing it takes seconds (see validation.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from warehouse.checks.context import CheckContext

Row = Mapping[str, Any]
Find = Callable[[Row, CheckContext], str | None]


@dataclass(frozen=True)
class Rule:
    """Condition on the rows of a frame, and the reason for it.

    It is either a Great Expectations expectation on columns of the frame (`column`), or one on a
    column of computed faults: `find` returns the fault of a row, or None, and no row may have a
    fault.
    """

    name: str
    why: str
    expectation: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    find: Find | None = None
    blocking: bool = True
    needs: str | None = None
    """Field of `CheckContext` that the rule needs. The rule is skipped if it is None."""

    @property
    def column(self) -> str | None:
        """Return the checked columns, or None for computed faults and whole tables."""
        if self.find is not None:
            return None
        return (
            self.arguments.get("column") or ", ".join(self.arguments.get("column_list", ())) or None
        )


@dataclass(frozen=True)
class FrameRules:
    """Rules over one frame. `rows` makes the frame from the table; `grain` describes a row."""

    grain: str
    key: tuple[str, ...]
    """Columns that name an unexpected row in results and Data Docs."""
    rows: Callable[[pa.Table, CheckContext], Sequence[Row]]
    columns: tuple[str, ...]
    """Columns that Great Expectations sees besides the faults: ids, labels and numbers, no prompts
    or answers."""
    rules: tuple[Rule, ...]
    at_once: bool = False
    """True: the frame has one row, and `find` receives all rows of the table as `row["rows"]`."""


@dataclass(frozen=True)
class Suite:
    """All rules of one lake table, frame by frame."""

    table: str
    frames: tuple[FrameRules, ...]
    of_dataset: bool = False
    """True if the table belongs to a dataset. All runs on the dataset then check equal rows."""


def no_fault(
    name: str, why: str, find: Find, *, blocking: bool = True, needs: str | None = None
) -> Rule:
    """Return a rule that a Python function evaluates row by row."""
    return Rule(
        name, why, "expect_column_values_to_be_null", {"column": name}, find, blocking, needs
    )


def one_value(name: str, why: str, column: str, *, blocking: bool = True) -> Rule:
    """Return a rule for the whole table: all rows have the same value in the column."""

    def several(row: Row, context: CheckContext) -> str | None:
        values = sorted({str(r[column]) for r in row["rows"]})
        return (
            f"{len(values)} values of {column}: {', '.join(values[:5])}"
            if len(values) > 1
            else None
        )

    return no_fault(name, why, several, blocking=blocking)


def present(name: str, why: str, column: str) -> Rule:
    """Return a rule: no row has null in the column."""
    return Rule(name, why, "expect_column_values_to_not_be_null", {"column": column})


def unique(name: str, why: str, *columns: str) -> Rule:
    """Return a rule: no two rows are equal in all these columns. Rows of only nulls are ignored."""
    if len(columns) == 1:
        return Rule(name, why, "expect_column_values_to_be_unique", {"column": columns[0]})
    return Rule(name, why, "expect_compound_columns_to_be_unique", {"column_list": list(columns)})


def one_of(name: str, why: str, column: str, values: Sequence[str]) -> Rule:
    """Return a rule: the column holds these values or null."""
    return Rule(
        name,
        why,
        "expect_column_values_to_be_in_set",
        {"column": column, "value_set": list(values)},
    )


def at_least(name: str, why: str, column: str, minimum: float) -> Rule:
    """Return a rule: the column's numbers are at least `minimum`, or null."""
    return Rule(
        name, why, "expect_column_values_to_be_between", {"column": column, "min_value": minimum}
    )


def matches(name: str, why: str, column: str, regex: str) -> Rule:
    """Return a rule: the column's texts match a pattern, or are null."""
    return Rule(
        name, why, "expect_column_values_to_match_regex", {"column": column, "regex": regex}
    )


def not_empty(name: str, why: str) -> Rule:
    """Return a rule: the frame has at least one row."""
    return Rule(name, why, "expect_table_row_count_to_be_between", {"min_value": 1})


def of_run(row: Row, context: CheckContext) -> str | None:
    """Return the fault of a row that belongs to another benchmark or model, or None."""
    for column, wanted in (("benchmark", context.benchmark), ("model", context.model)):
        if row.get(column, wanted) != wanted:
            return f"{column} is {row[column]!r}, expected {wanted!r}"
    return None


def whole_table(
    rows: Callable[[pa.Table, CheckContext], Sequence[Row]], *rules: Rule
) -> FrameRules:
    """Return rules over all rows at once: `find` receives them as `row["rows"]`."""
    return FrameRules("the whole table", ("table",), rows, ("table",), rules, at_once=True)


def plain_rows(*columns: str) -> Callable[[pa.Table, CheckContext], Sequence[Row]]:
    """Return a function that takes these columns of the table's rows."""
    return lambda data, context: data.select(list(columns)).to_pylist()
