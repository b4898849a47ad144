"""Rules and suites as data. Great Expectations itself is only named here: importing it takes seconds (see validation.py)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from warehouse.checks.context import CheckContext

Row = Mapping[str, Any]
Find = Callable[[Row, CheckContext], str | None]


@dataclass(frozen=True)
class Rule:
    """One thing that must hold, and why.

    Either a Great Expectations expectation on columns of the frame (`column`), or one on a column of faults: `find` names what is
    wrong with a row (None where nothing is), and no row may have a fault.
    """

    name: str
    why: str
    expectation: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    find: Find | None = None
    blocking: bool = True
    needs: str | None = None
    """Field of CheckContext without which the rule cannot be asked."""

    @property
    def column(self) -> str | None:
        """Return the table's checked columns, or None for computed faults and whole tables."""
        if self.find is not None:
            return None
        return (
            self.arguments.get("column") or ", ".join(self.arguments.get("column_list", ())) or None
        )


@dataclass(frozen=True)
class FrameRules:
    """Rules over one frame. `rows` makes the frame from the table; `grain` says what one row stands for."""

    grain: str
    key: tuple[str, ...]
    """Columns that name an unexpected row in results and Data Docs."""
    rows: Callable[[pa.Table, CheckContext], Sequence[Row]]
    columns: tuple[str, ...]
    """Columns that Great Expectations sees, beside the faults: ids, labels and numbers, never prompts or answers."""
    rules: tuple[Rule, ...]
    at_once: bool = False
    """One frame row for all rows together: `find` gets them as `row["rows"]`."""


@dataclass(frozen=True)
class Suite:
    """All rules of one table of the lake, frame by frame."""

    table: str
    frames: tuple[FrameRules, ...]
    of_dataset: bool = False
    """Whether its rows are those of a dataset, so that all runs on it have the same ones checked."""


def no_fault(
    name: str, why: str, find: Find, *, blocking: bool = True, needs: str | None = None
) -> Rule:
    """A rule that Python decides row by row."""
    return Rule(
        name, why, "expect_column_values_to_be_null", {"column": name}, find, blocking, needs
    )


def one_value(name: str, why: str, column: str, *, blocking: bool = True) -> Rule:
    """A rule for the whole table: all rows hold the same value."""

    def several(row: Row, context: CheckContext) -> str | None:
        values = sorted({str(r[column]) for r in row["rows"]})
        return (
            f"{len(values)} values of {column}: {', '.join(values[:5])}"
            if len(values) > 1
            else None
        )

    return no_fault(name, why, several, blocking=blocking)


def present(name: str, why: str, column: str) -> Rule:
    """No row has null in the column."""
    return Rule(name, why, "expect_column_values_to_not_be_null", {"column": column})


def unique(name: str, why: str, *columns: str) -> Rule:
    """No two rows agree in all these columns; rows of nulls alone are left out."""
    if len(columns) == 1:
        return Rule(name, why, "expect_column_values_to_be_unique", {"column": columns[0]})
    return Rule(name, why, "expect_compound_columns_to_be_unique", {"column_list": list(columns)})


def one_of(name: str, why: str, column: str, values: Sequence[str]) -> Rule:
    """The column holds these values or null."""
    return Rule(
        name,
        why,
        "expect_column_values_to_be_in_set",
        {"column": column, "value_set": list(values)},
    )


def at_least(name: str, why: str, column: str, minimum: float) -> Rule:
    """The column's numbers are `minimum` or more; null passes."""
    return Rule(
        name, why, "expect_column_values_to_be_between", {"column": column, "min_value": minimum}
    )


def matches(name: str, why: str, column: str, regex: str) -> Rule:
    """The column's texts contain a match; null passes."""
    return Rule(
        name, why, "expect_column_values_to_match_regex", {"column": column, "regex": regex}
    )


def not_empty(name: str, why: str) -> Rule:
    """The frame has a row."""
    return Rule(name, why, "expect_table_row_count_to_be_between", {"min_value": 1})


def of_run(row: Row, context: CheckContext) -> str | None:
    """Fault: the row belongs to another benchmark or model than the one that is checked."""
    for column, wanted in (("benchmark", context.benchmark), ("model", context.model)):
        if row.get(column, wanted) != wanted:
            return f"{column} is {row[column]!r}, expected {wanted!r}"
    return None


def whole_table(
    rows: Callable[[pa.Table, CheckContext], Sequence[Row]], *rules: Rule
) -> FrameRules:
    """Rules over all rows at once: `find` gets them as `row["rows"]`."""
    return FrameRules("the whole table", ("table",), rows, ("table",), rules, at_once=True)


def plain_rows(*columns: str) -> Callable[[pa.Table, CheckContext], Sequence[Row]]:
    """The table's rows with these columns."""
    return lambda data, context: data.select(list(columns)).to_pylist()
