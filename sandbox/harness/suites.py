"""Run of a unittest module. unittest itself runs the methods, one at a time."""

from __future__ import annotations

import builtins

__builtins__ = dict(builtins.__dict__)  # The candidate can change the shared built-ins.
__unittest = True  # unittest leaves frames of this file out of its tracebacks.

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def case_runner(
    names: dict[str, Any], run_statements: Callable[[bytes, bytes], None]
) -> Callable[[bytes, bytes], bytes | None]:
    """Make a function that runs the tests' module, then its test methods.

    The function returns None for a pass, else the failure's text.
    """
    broken: dict[str, bytes | None] = {}

    def run_case(kind: bytes, text: bytes) -> bytes | None:
        if kind == b"module":
            run_statements(kind, text)
            return _attempt(names.get("setUpModule"))
        title, *marks = text.decode().split("\n")
        class_name, _, method = title.partition(".")
        case_class = names.get(class_name)
        if not isinstance(case_class, type) or not hasattr(case_class, method):
            return f"there is no {title} in the tests".encode()
        if class_name not in broken:
            broken[class_name] = _attempt(case_class.setUpClass)
        failure = broken[class_name] or _run(case_class, method)
        if "last of class" in marks:
            after = _attempt(case_class.tearDownClass) if broken[class_name] is None else None
            failure = failure or after or _attempt(case_class.doClassCleanups)
        if "last of module" in marks:
            failure = failure or _attempt(names.get("tearDownModule"))
        return failure

    return run_case


def _attempt(step: Callable[[], object] | None) -> bytes | None:
    if step is None:
        return None
    import traceback

    try:
        step()
    except BaseException as error:  # noqa: BLE001 - whatever set-up raises, its tests have failed
        return "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")
    return None


def _run(case_class: Any, method: str) -> bytes | None:
    """Run one method. A skipped test counts as failed, since nothing was tested."""
    import unittest

    result = unittest.TestResult()
    case_class(method).run(result)
    wrong = [text for _, text in (*result.failures, *result.errors)] + [
        f"skipped: {reason}" for _, reason in result.skipped
    ]
    if not wrong and result.wasSuccessful() and result.testsRun:
        return None
    text = "\n".join(wrong) or (
        "passed, and was expected to fail" if result.unexpectedSuccesses else "did not run"
    )
    return text.encode("utf-8", "backslashreplace")
