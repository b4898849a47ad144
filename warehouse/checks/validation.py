"""Evaluation of a table's suite: rows -> frames -> Great Expectations -> results -> checks.

A crash of a rule is reported apart from its findings. `_gx` imports Great Expectations once per
process (1.3 s of processor time), without modules that no rule here uses. It receives only frames,
in an in-memory context without progress bars and telemetry.
"""

import hashlib
import os
import pickle
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any

import pyarrow as pa

from schemas.errors import UnknownName
from schemas.grouping import grouped
from schemas.lake.records import QualityCheck
from schemas.lake.tables import TABLES
from warehouse.checks import docs
from warehouse.checks.episodes import EPISODES
from warehouse.checks.rule import CheckContext, FrameRules, Row, Rule, Suite, TableRows
from warehouse.checks.scores import JUDGE_VERDICTS, SCORES
from warehouse.checks.staged import DIALOGS, PROBLEMS
from warehouse.checks.verdicts import FORGERY_AUDIT, TEST_VERDICTS
from warehouse.lake import LakeRows

_SUITES = (DIALOGS, PROBLEMS, EPISODES, TEST_VERDICTS, FORGERY_AUDIT, JUDGE_VERDICTS, SCORES)
SUITES: dict[str, Suite] = {suite.table: suite for suite in _SUITES}
_RULE_KEY = "parley.rule"
_lock = threading.Lock()
"""Lock for Great Expectations, which stores its current context in a global variable."""


@dataclass(frozen=True)
class RuleResult:
    """Great Expectations' result of one rule."""

    rule: Rule
    frame: FrameRules
    result: Any

    @property
    def crash(self) -> str | None:
        """Return the error that prevented the evaluation, or None."""
        info = self.result.exception_info or {}
        for part in (info, *(value for value in info.values() if isinstance(value, dict))):
            if part.get("raised_exception"):
                return str(part.get("exception_message") or "no message")
        return None


@cache
def _gx() -> Any:
    os.environ["GX_ANALYTICS_ENABLED"] = "False"
    # Half of the import would be for rules and data sources that are not used here.
    with _importing_less(
        lazy=("scipy.stats", "altair", "jsonschema"), absent=("boto3", "botocore", "sqlalchemy")
    ):
        import great_expectations

    return great_expectations


def check_table(table: str, data: pa.Table | LakeRows, context: CheckContext) -> list[QualityCheck]:
    """Run a table's suite, and write its page of Data Docs if the context names a folder.

    A rule that crashes says nothing about the data. Its check has `crashed` set and is blocking,
    even if the rule itself only warns.

    Returns:
        One check per rule whose facts are in the context, in the suite's order.

    Raises:
        UnknownName: the table has no suite. The message lists the tables that have one.
    """
    if table not in SUITES:
        raise UnknownName("table with a suite", table, SUITES)
    suite = SUITES[table]
    rows = data.read(_read_columns(suite)) if isinstance(data, LakeRows) else data
    results = (
        _validate_dataset(suite, rows, context)
        if suite.of_dataset
        else validate(suite, rows, context)
    )
    if context.docs_dir is not None:
        docs.write_page(table, results, context)
    page = docs.docs_path(context, table)
    return [as_check(suite, result, context, page) for result in results]


_N_DATASETS = 16
_datasets: OrderedDict[bytes, list[RuleResult]] = OrderedDict()


def _validate_dataset(suite: Suite, data: pa.Table, context: CheckContext) -> list[RuleResult]:
    """Validate the rows of a dataset.

    All runs on a dataset share its rows, so equal rows with equal facts are validated once per
    process.
    """
    facts = replace(context, run_id="", model="", checked_at="", docs_dir=None)
    key = hashlib.sha256(pickle.dumps((suite.table, data.combine_chunks(), facts))).digest()
    if key not in _datasets:
        _datasets[key] = validate(suite, data, facts)
        while len(_datasets) > _N_DATASETS:
            _datasets.popitem(last=False)
    return _datasets[key]


def blocking_failures(checks: Iterable[QualityCheck]) -> list[QualityCheck]:
    """Return the failed checks that withhold a run from publication."""
    return [check for check in checks if check.blocking and not check.success]


def validate(suite: Suite, data: pa.Table, context: CheckContext) -> list[RuleResult]:
    """Evaluate the rules of a suite whose facts are in the context, in the suite's order."""
    with _lock:
        known: dict[TableRows, Sequence[Row]] = {}
        results: list[RuleResult] = []
        for frame in suite.frames:
            rules = [rule for rule in frame.rules if _is_applicable(rule, context)]
            if rules:
                rows = _rows_of(frame, data, context, known)
                results += _validate_frame(frame, rules, rows, context)
        return results


def _is_applicable(rule: Rule, context: CheckContext) -> bool:
    return rule.needs is None or getattr(context, rule.needs) not in (None, ())


def _rows_of(
    frame: FrameRules, data: pa.Table, context: CheckContext, known: dict[TableRows, Sequence[Row]]
) -> Sequence[Row] | Exception:
    """Return the rows of a frame. `known` has the rows of earlier frames of the table."""
    try:
        if frame.rows not in known:
            known[frame.rows] = _rows(frame.rows, data)
        return frame.expand(known[frame.rows], context)
    except Exception as error:  # noqa: BLE001 - reported as the crash of every rule on this frame
        return error


def _rows(wanted: TableRows, data: pa.Table) -> list[Row]:
    columns = {
        name: data[name] if kind == data[name].type else data[name].cast(kind)
        for name, kind in _types(data.schema, wanted.paths).items()
    }
    rows = pa.table(columns).to_pylist()
    for row in rows:
        for name, derive in wanted.derived.items():
            row[name] = derive(row)
    return rows


def _read_columns(suite: Suite) -> pa.Schema:
    """Return the schema of the columns that the suite's rules read."""
    paths = (path for frame in suite.frames for path in frame.rows.paths)
    return pa.schema(list(_types(TABLES[suite.table].schema, paths).items()))


def _types(parent: pa.Schema | pa.StructType, paths: Iterable[str]) -> dict[str, pa.DataType]:
    """Return the types of the fields that the paths name, without other parts of nested fields."""
    parts = grouped((name, rest) for name, _, rest in (path.partition(".") for path in paths))
    return {name: _with_parts(parent.field(name).type, rest) for name, rest in parts.items()}


def _with_parts(kind: pa.DataType, paths: Sequence[str]) -> pa.DataType:
    """Return the type with only these parts. An empty path names all of them."""
    if "" in paths:
        return kind
    if isinstance(kind, pa.ListType):
        return pa.list_(_with_parts(kind.value_type, paths))
    assert isinstance(kind, pa.StructType), kind
    return pa.struct(_types(kind, paths))


@cache
def _any_frame() -> Any:
    """Return the batch definition for all frames.

    Making one per frame takes longer than most rules.
    """
    gx = _gx()
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )
    gx_context = gx.get_context(mode="ephemeral", project_config=config)
    return (
        gx_context.data_sources.add_pandas("frames")
        .add_dataframe_asset("frame")
        .add_batch_definition_whole_dataframe("all")
    )


def warm() -> None:
    """Import Great Expectations and make its context.

    This takes seconds, so call it while nothing waits for this process.
    """
    _any_frame()


def _validate_frame(
    frame: FrameRules, rules: Sequence[Rule], rows: Sequence[Row] | Exception, context: CheckContext
) -> list[RuleResult]:
    if isinstance(rows, Exception):
        return [_crashed(rule, frame, rows) for rule in rules]
    import pandas

    columns: dict[str, list[Any]] = {
        column: [row[column] for row in rows] for column in frame.columns
    }
    crashed: dict[str, RuleResult] = {}
    for rule in rules:
        if rule.find is not None:
            try:
                columns[rule.name] = [rule.find(row, context) for row in rows]
            except Exception as error:  # noqa: BLE001 - reported as the crash of this rule
                crashed[rule.name] = _crashed(rule, frame, error)
    results = _evaluate(
        frame, [r for r in rules if r.name not in crashed], pandas.DataFrame(columns)
    )
    return [crashed.get(rule.name) or RuleResult(rule, frame, results[rule.name]) for rule in rules]


def _evaluate(frame: FrameRules, rules: Sequence[Rule], data: Any) -> dict[str, Any]:
    batch = _any_frame().get_batch({"dataframe": data})
    suite = _gx().ExpectationSuite(
        name=frame.grain, expectations=[_expectation(rule) for rule in rules]
    )
    complete = {"result_format": "COMPLETE", "unexpected_index_column_names": list(frame.key)}
    results = batch.validate(suite, result_format=complete).results
    return {result.expectation_config.meta[_RULE_KEY]: result for result in results}


def _expectation(rule: Rule) -> Any:
    from great_expectations.expectations.metadata_types import FailureSeverity
    from great_expectations.expectations.registry import get_expectation_impl

    return get_expectation_impl(rule.expectation)(
        **rule.arguments,
        description=f"{rule.name}: {rule.why}",
        severity=FailureSeverity.CRITICAL if rule.blocking else FailureSeverity.WARNING,
        meta={_RULE_KEY: rule.name},
    )


def _crashed(rule: Rule, frame: FrameRules, error: Exception) -> RuleResult:
    from great_expectations.core import ExpectationValidationResult

    message = f"{type(error).__name__}: {error}"
    info = {"raised_exception": True, "exception_message": message, "exception_traceback": ""}
    result = ExpectationValidationResult(
        success=False, expectation_config=_expectation(rule).configuration, exception_info=info
    )
    return RuleResult(rule, frame, result)


_N_EXAMPLES = 3
_MAX_DETAIL = 600


def as_check(
    suite: Suite, outcome: RuleResult, context: CheckContext, docs_path: str | None
) -> QualityCheck:
    """Return the result of one rule as a row of `quality_checks`."""
    rule, result, crash = outcome.rule, outcome.result.result or {}, outcome.crash
    success = bool(outcome.result.success) and crash is None
    return QualityCheck(
        run_id=context.run_id,
        benchmark=context.benchmark,
        model=context.model,
        table_name=suite.table,
        suite=f"{suite.table}: {outcome.frame.grain}",
        expectation=rule.name,
        column_name=", ".join(rule.columns) or None,
        success=success,
        crashed=crash is not None,
        blocking=rule.blocking or crash is not None,
        unexpected_count=None if crash else result.get("unexpected_count"),
        element_count=None if crash else result.get("element_count"),
        detail=_cut(_detail(outcome, crash, success)),
        checked_at=context.checked_at,
        docs_path=docs_path,
    )


def _detail(outcome: RuleResult, crash: str | None, success: bool) -> str:
    if crash is not None:
        return f"the check itself crashed, so the data were not checked: {crash}"
    if success:
        return ""
    result = outcome.result.result
    examples = [
        _example(outcome, index)
        for index in (result.get("partial_unexpected_index_list") or [])[:_N_EXAMPLES]
    ]
    if not examples:
        return f"{outcome.rule.why}; observed {result.get('observed_value')}"
    return (
        f"{outcome.rule.why}; {result['unexpected_count']} of {result['element_count']}, for "
        f"example {'; '.join(examples)}"
    )


def _example(outcome: RuleResult, index: dict[str, Any]) -> str:
    place = ", ".join(f"{key}={index[key]}" for key in outcome.frame.key if key in index)
    values = [str(value) for key, value in index.items() if key not in outcome.frame.key]
    return f"{place}: {', '.join(values)}" if values else place


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_DETAIL else text[: _MAX_DETAIL - 1] + "…"


class _ImportFilter:
    """Finder that delays or refuses the import of some modules in the thread that made it."""

    def __init__(self, lazy: tuple[str, ...], absent: tuple[str, ...]) -> None:
        self._lazy, self._absent, self._thread = lazy, absent, threading.get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a lazy spec of a module whose import is delayed, or None for another module.

        Raises:
            ModuleNotFoundError: the module is refused.
        """
        if threading.get_ident() == self._thread and name in self._absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        spec = PathFinder.find_spec(name, path, target) if name in self._lazy else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def _importing_less(*, lazy: tuple[str, ...], absent: tuple[str, ...]) -> Iterator[None]:
    """Within the block, change what the code of this thread imports.

    Args:
        lazy: modules whose code runs at the first use of an attribute.
        absent: modules that appear not to be installed. All are optional for the importing package.
    """
    finder = _ImportFilter(lazy, absent)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
