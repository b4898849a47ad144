"""Rules and suites as data.

This module refers to expectations by name, and does not import Great Expectations, because the
import takes seconds (see validation.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Implication:
    """If `metric` has `value`, `implied` must be `implied_value`.

    Both scores are of the same episode and turn.
    """

    metric: str
    value: float
    implied: str
    implied_value: float


class RowFacts(Mapping[str, Mapping[str, object]]):
    """Facts about many rows, keyed by one of their columns.

    The facts stay an Arrow table until the first one is read, also in a process that receives them.
    """

    def __init__(self, rows: pa.Table, key: str) -> None:
        self._rows, self._key = rows, key

    @cached_property
    def _by_key(self) -> dict[str, dict[str, object]]:
        return dict(
            zip(
                self._rows[self._key].to_pylist(),
                self._rows.drop_columns(self._key).to_pylist(),
                strict=True,
            )
        )

    def __getitem__(self, key: str) -> Mapping[str, object]:
        return self._by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return self._rows.num_rows

    def __reduce__(self) -> tuple[type["RowFacts"], tuple[pa.Table, str]]:
        return RowFacts, (self._rows, self._key)


@dataclass(frozen=True)
class CheckContext:
    """Run whose table is checked, and the facts to check it against.

    A fact that is None is unknown. Rules that need it are skipped; they do not count as passed.
    """

    run_id: str
    """Id of the run. For `dialogs` and `problems`: any name of the staging, such as a dataset
    digest."""
    benchmark: str
    model: str
    """Label of the model. Empty for the tables of a dataset."""
    checked_at: str
    """Time of the check: UTC, ISO 8601."""
    docs_dir: Path | None = None
    """Folder that receives a folder of Data Docs per run. None: no docs are written."""

    n_input: int | None = None
    """Number of raw rows that staging read: problems + quarantined."""
    n_quarantined: int = 0
    problem_digests: Mapping[str, str] | None = None
    """problem_id -> row digest, for the suite of `dialogs`."""
    context_turns: Mapping[str, int] | None = None
    """context_id -> number of its turns, for the suite of `dialogs`."""

    wanted_episodes: frozenset[str] | None = None
    """All episode ids of the run."""
    episode_facts: Mapping[str, Mapping[str, object]] | None = None
    """episode_id -> column -> value that the id is a digest of. A row with another value is not
    that episode."""
    contained_episodes: Mapping[str, tuple[str, int]] | None = None
    """episode_id -> (problem, sample), as listed in `run_episodes`."""
    check_served_model: bool | None = None
    """True if the endpoint must report one model name throughout the run. None if an alias is
    allowed."""
    dialog_rounds: Mapping[str, int] | None = None
    """Row digest -> number of model answers in its dialog. None if a simulated user decides the
    length."""

    episode_rounds: Mapping[str, int] | None = None
    """Final episode -> rounds that need a verdict and a score. Read by the suites of
    `test_verdicts` and `scores`."""
    judges: Mapping[str, str] | None = None
    """Rubric -> label of the judge model."""
    judgement_ranges: Mapping[tuple[str, str], tuple[float, float]] | None = None
    """(rubric, dimension) -> lowest and highest value."""
    expected_judgements: frozenset[tuple[str, int, str, str]] | None = None
    """(episode_id, turn, rubric, dimension) of every judgement that must exist."""
    expected_verdicts: frozenset[tuple[str, int, str]] | None = None
    """(episode_id, turn, instruction_id) of every verdict that must exist."""
    expected_audits: Mapping[tuple[str, int, str], str] | None = None
    """(episode_id, turn, instruction_id) of every pass to audit -> its verdict id."""
    wall_limit_s: float | None = None
    wall_slack_s: float = 30.0
    """Seconds that starting and stopping a sandbox may add to the duration of a program."""
    fault_limit: float = 0.01
    """The suite warns if the share of infra verdicts, or of scores that a fault left missing, is
    above this."""

    metric_ranges: Mapping[str, tuple[float, float]] | None = None
    """Metric -> (lowest, highest) value. No other metric may appear."""
    due_scores: Mapping[str, frozenset[tuple[int, str]]] | None = None
    """Final episode -> (turn, metric) of every score that must exist, including turns that were
    never played."""
    implications: tuple[Implication, ...] = ()


def problem_digests(problems: pa.Table) -> dict[str, str]:
    """Return problem_id -> row digest."""
    return dict(
        zip(problems["problem_id"].to_pylist(), problems["row_digest"].to_pylist(), strict=True)
    )


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
    """True if the frame has one row: `find` then receives the table's rows as `row["rows"]`."""


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
    """Return a rule: the column contains only these values or null."""
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
