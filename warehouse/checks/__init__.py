"""Quality checks between the stages: one Great Expectations suite per table.

    checks = check_table("scores", scores, CheckContext(run_id=..., ...))
    if blocking_failures(checks): the run is withheld from publication

Importing this package is cheap. The first `check_table` of a process imports Great Expectations.
"""

import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from schemas.errors import UnknownName
from schemas.lake.records import QualityCheck
from warehouse.checks import docs, validation
from warehouse.checks.docs import index_path
from warehouse.checks.episodes import EPISODES
from warehouse.checks.rule import CheckContext, Implication, RowFacts, Suite, problem_digests
from warehouse.checks.scores import JUDGE_VERDICTS, SCORES
from warehouse.checks.staged import DIALOGS, PROBLEMS
from warehouse.checks.validation import RuleResult, warm
from warehouse.checks.verdicts import FORGERY_AUDIT, TEST_VERDICTS
from warehouse.lake import LakeRows

_SUITES = (DIALOGS, PROBLEMS, EPISODES, TEST_VERDICTS, FORGERY_AUDIT, JUDGE_VERDICTS, SCORES)
SUITES: dict[str, Suite] = {suite.table: suite for suite in _SUITES}

__all__ = [
    "SUITES",
    "CheckContext",
    "Implication",
    "RowFacts",
    "blocking_failures",
    "check_table",
    "index_path",
    "problem_digests",
    "warm",
]


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
    rows = data.read() if isinstance(data, LakeRows) else data
    results = (
        _validate_dataset(suite, rows, context)
        if suite.of_dataset
        else validation.validate(suite, rows, context)
    )
    if context.docs_dir is not None:
        docs.write_page(table, results, context)
    page = docs.docs_path(context, table)
    return [validation.as_check(suite, result, context, page) for result in results]


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
        _datasets[key] = validation.validate(suite, data, facts)
        while len(_datasets) > _N_DATASETS:
            _datasets.popitem(last=False)
    return _datasets[key]


def blocking_failures(checks: Iterable[QualityCheck]) -> list[QualityCheck]:
    """Return the failed checks that withhold a run from publication."""
    return [check for check in checks if check.blocking and not check.success]
