"""pytest's words for what became of a test, and the worse of two: a test's set-up, call and tear-down have one word together.

No class is defined here: a candidate finds classes among object's subclasses.
"""

from __future__ import annotations

import builtins

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from typing import Any

RAN = (0, 1)
"""pytest's exit codes for tests that ran, well or not."""
_WORST_FIRST = ("ERROR", "FAILED", "XPASS", "SKIPPED", "XFAIL", "PASSED")


def word_of(report: Any) -> str | None:
    """Give pytest's word for a report; None for a set-up or tear-down that went well."""
    expected_to_fail = hasattr(report, "wasxfail")
    if report.skipped:
        return "XFAIL" if expected_to_fail else "SKIPPED"
    if report.failed:
        return "FAILED" if report.when == "call" else "ERROR"
    if report.when != "call":
        return None
    return "XPASS" if expected_to_fail else "PASSED"


def is_worse(word: str, before: str | None) -> bool:
    """Tell whether a word takes the place of the one before, if there is one."""
    return before is None or _WORST_FIRST.index(word) < _WORST_FIRST.index(before)
