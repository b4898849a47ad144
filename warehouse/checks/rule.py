"""Rules and suites as data.

This module refers to expectations by name, and does not import Great Expectations, because the
import takes seconds (see validation.py).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

K = TypeVar("K", bound=str)
V = TypeVar("V", str, int)


@dataclass(frozen=True)
class Implication:
    """If `metric` has `value`, `implied` must be `implied_value`.

    Both scores are of the same episode and turn.
    """

    metric: str
    value: float
    implied: str
    implied_value: float


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


Row = Mapping[str, Any]
Find = Callable[[Row, CheckContext], str | None]
Expand = Callable[[Sequence[Row], CheckContext], Sequence[Row]]


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of a table as rules see them."""

    paths: tuple[str, ...]
    """Columns, and fields of nested columns, such as `steps.turn`. No other fields are read."""
    derived: Mapping[str, Callable[[Row], object]] = field(
        default_factory=dict[str, Callable[[Row], object]]
    )
    """Further columns: name -> function of the row, with the columns derived before it."""


@dataclass(frozen=True)
class Rule:
    """Condition on the rows of a frame, and the reason for it.

    It is either a Great Expectations expectation on columns of the frame, or one on a column of
    computed faults: `find` returns the fault of a row, or None, and no row may have a fault.
    """

    name: str
    why: str
    expectation: str
    columns: tuple[str, ...] = ()
    """Columns that the expectation reads. None for computed faults and whole tables."""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    find: Find | None = None
    blocking: bool = True
    needs: str | None = None
    """Field of `CheckContext` that the rule needs. The rule is skipped if it is None."""


@dataclass(frozen=True)
class FrameRules:
    """Rules over one frame, whose rows `expand` makes from the table's; `grain` describes a row."""

    grain: str
    key: tuple[str, ...]
    """Columns that name an unexpected row in results and Data Docs."""
    rows: TableRows
    rules: tuple[Rule, ...]
    expand: Expand = lambda rows, context: rows

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that Great Expectations sees besides the faults.

        They are the key, and what the rules read: ids, labels and numbers, no prompts or answers.
        """
        return tuple(dict.fromkeys((*self.key, *(c for rule in self.rules for c in rule.columns))))


@dataclass(frozen=True)
class Suite:
    """All rules of one lake table, frame by frame."""

    table: str
    frames: tuple[FrameRules, ...]
    of_dataset: bool = False
    """True if the table belongs to a dataset. All runs on the dataset then check equal rows."""


def no_fault(
    name: str, why: str, *, blocking: bool = True, needs: str | None = None
) -> Callable[[Find], Rule]:
    """Return a decorator that makes a rule of a function: row -> its fault, or None."""

    def rule(find: Find) -> Rule:
        arguments = {"column": name}
        expectation = "expect_column_values_to_be_null"
        return Rule(name, why, expectation, (), arguments, find, blocking, needs)

    return rule


def one_value(name: str, why: str, column: str, *, blocking: bool = True) -> Rule:
    """Return a rule for the whole table: all rows have the same value in the column."""

    @no_fault(name, why, blocking=blocking)
    def several(row: Row, context: CheckContext) -> str | None:
        values = several_values((column, str(r[column])) for r in row["rows"]).get(column, [])
        return f"{len(values)} values of {column}: {', '.join(values[:5])}" if values else None

    return several


def several_values(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return each key that occurs with several values, with its sorted values."""
    values: dict[K, set[V]] = {}
    for key, value in pairs:
        values.setdefault(key, set()).add(value)
    return {key: sorted(found) for key, found in values.items() if len(found) > 1}


def few_faults(name: str, why: str, what: str, is_fault: Callable[[Row], bool]) -> Rule:
    """Return a warning for the whole table: the share of faulty rows is at most `fault_limit`.

    Args:
        what: rows that are counted, such as `verdicts are infra`.
    """

    @no_fault(name, why, blocking=False)
    def too_many(row: Row, context: CheckContext) -> str | None:
        n, n_faulty, limit = len(row["rows"]), sum(map(is_fault, row["rows"])), context.fault_limit
        if not n or n_faulty / n <= limit:
            return None
        return f"{n_faulty} of {n} {what} ({n_faulty / n:.1%}), limit {limit:.1%}"

    return too_many


def of_column(name: str, why: str, kind: str, column: str, **arguments: Any) -> Rule:
    """Return a rule on the values of one column, by the end of its expectation's name."""
    expectation = f"expect_column_values_to_{kind}"
    return Rule(name, why, expectation, (column,), {"column": column, **arguments})


def present(name: str, why: str, column: str) -> Rule:
    """Return a rule: no row has null in the column."""
    return of_column(name, why, "not_be_null", column)


def unique(name: str, why: str, *columns: str) -> Rule:
    """Return a rule: no two rows are equal in all these columns. Rows of only nulls are ignored."""
    if len(columns) == 1:
        return of_column(name, why, "be_unique", columns[0])
    expectation = "expect_compound_columns_to_be_unique"
    return Rule(name, why, expectation, columns, {"column_list": list(columns)})


def one_of(name: str, why: str, column: str, values: Iterable[str]) -> Rule:
    """Return a rule: the column contains only these values or null."""
    return of_column(name, why, "be_in_set", column, value_set=list(values))


def at_least(name: str, why: str, column: str, minimum: float) -> Rule:
    """Return a rule: the column's numbers are at least `minimum`, or null."""
    return of_column(name, why, "be_between", column, min_value=minimum)


def matches(name: str, why: str, column: str, regex: str) -> Rule:
    """Return a rule: the column's texts match a pattern, or are null."""
    return of_column(name, why, "match_regex", column, regex=regex)


def not_empty(name: str, why: str) -> Rule:
    """Return a rule: the frame has at least one row."""
    expectation = "expect_table_row_count_to_be_between"
    return Rule(name, why, expectation, arguments={"min_value": 1})


def of_run(name: str, why: str = "tables are partitioned by benchmark and model") -> Rule:
    """Return a rule: each row has the run's benchmark and model."""

    @no_fault(name, why)
    def other_run(row: Row, context: CheckContext) -> str | None:
        for column, wanted in (("benchmark", context.benchmark), ("model", context.model)):
            if row.get(column, wanted) != wanted:
                return f"{column} is {row[column]!r}, expected {wanted!r}"
        return None

    return other_run


def turn_exists(why: str) -> Rule:
    """Return a rule: each row has a round of an episode of the run.

    Round 0 stands for the whole episode. A round with a due score exists, even if never played.
    """

    @no_fault("episode_and_turn_exist", why, needs="episode_rounds")
    def unknown_turn(row: Row, context: CheckContext) -> str | None:
        due = (context.due_scores or {}).get(row["episode_id"], ())
        if any(turn == row["turn"] for turn, _ in due):
            return None
        rounds = (context.episode_rounds or {}).get(row["episode_id"])
        if rounds is None:
            return "the run has no such episode"
        is_known = 0 <= row["turn"] <= rounds
        return None if is_known else f"turn {row['turn']} of an episode of {rounds} turns"

    return unknown_turn


def of_its_episode(why: str) -> Rule:
    """Return a rule: each row has the problem and the sample of its episode."""

    @no_fault("row_of_its_episode", why, needs="episode_facts")
    def of_another_episode(row: Row, context: CheckContext) -> str | None:
        facts = (context.episode_facts or {}).get(row["episode_id"], {})
        columns = (c for c in ("problem_id", "sample") if c in facts and row[c] != facts[c])
        wrong = next(columns, None)
        if wrong is None:
            return None
        return f"{wrong} is {row[wrong]!r}, but {facts[wrong]!r} in its episode"

    return of_another_episode


def expected(name: str, why: str, key: tuple[str, ...], needs: str, fault: str) -> Rule:
    """Return a rule: the field `needs` of the context contains the key of each row."""

    @no_fault(name, why, needs=needs)
    def unexpected(row: Row, context: CheckContext) -> str | None:
        is_expected = tuple(row[name] for name in key) in getattr(context, needs)
        return None if is_expected else fault

    return unexpected


def each_present(
    grain: str,
    key: tuple[str, ...],
    name: str,
    why: str,
    fault: str,
    *,
    needs: str,
    blocking: bool = True,
    keys: Callable[[CheckContext], Iterable[tuple[Any, ...]]] | None = None,
) -> FrameRules:
    """Return a frame of all rows that the table must have, with the rule that it has each.

    Args:
        key: columns that identify a row.
        fault: fault of a missing row.
        needs: field of the context that contains the key of each row that must exist.
        keys: function that returns these keys if the field has another form.
    """

    def listed_keys(context: CheckContext) -> Iterable[tuple[Any, ...]]:
        listed = sorted(getattr(context, needs) or ())
        return listed if len(key) > 1 else ((value,) for value in listed)

    def expand(rows: Sequence[Row], context: CheckContext) -> list[Row]:
        existing = {tuple(row[column] for column in key) for row in rows}
        return [
            {**dict(zip(key, values, strict=True)), "exists": values in existing}
            for values in (keys or listed_keys)(context)
        ]

    @no_fault(name, why, blocking=blocking, needs=needs)
    def missing(row: Row, context: CheckContext) -> str | None:
        return None if row["exists"] else fault

    return FrameRules(grain, key, TableRows(key), (missing,), expand)


def whole_table(rows: TableRows, *rules: Rule) -> FrameRules:
    """Return rules over all rows at once: `find` receives them as `row["rows"]`."""

    def as_one(rows: Sequence[Row], context: CheckContext) -> list[Row]:
        return [{"table": "all rows", "rows": rows}]

    return FrameRules("the whole table", ("table",), rows, rules, as_one)
