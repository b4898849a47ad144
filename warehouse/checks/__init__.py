"""Quality checks between the stages: one Great Expectations suite per table.

    checks = check_table("scores", scores, CheckContext(run_id=..., ...))
    if blocking_failures(checks): the run is withheld from publication

Importing this package is cheap. The first `check_table` of a process imports Great Expectations.
"""

from warehouse.checks.docs import index_path
from warehouse.checks.rule import CheckContext, Implication
from warehouse.checks.validation import SUITES, blocking_failures, check_table, warm

__all__ = [
    "SUITES",
    "CheckContext",
    "Implication",
    "blocking_failures",
    "check_table",
    "index_path",
    "warm",
]
