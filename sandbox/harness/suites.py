"""Runs the tests of a unittest module, its methods one at a time.

A pass counts only where the suite says so. `unittest` is the copy that was loaded before the candidate ran. After each method
`integrity` looks whether it is unchanged.
"""

from __future__ import annotations

import builtins

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones
__unittest = True  # unittest leaves frames of this file out of its tracebacks

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_EXPECTS_FAILURE = "__unittest_expecting_failure__"
_IS_COROUTINE = 0x80
_mro = type.__dict__["__mro__"].__get__


def case_runner(
    names: dict[str, Any], run_statements: Callable[[bytes, int], None], checks: dict[str, Any]
) -> Callable[[bytes, bytes, int], bytes | None]:
    """Make a function that runs the tests' module, then cases of it. It gives None for a pass, else the failure's text."""
    broken: dict[str, bytes | None] = {}
    classes: dict[str, type] = {}

    def run_case(kind: bytes, text: bytes, flags: int) -> bytes | None:
        if kind == b"module":
            run_statements(text, flags)
            import unittest

            kinds = {name: value for name, value in names.items() if isinstance(value, type)}
            classes.update({name: kind for name, kind in kinds.items() if issubclass(kind, unittest.TestCase)})
            bases = (kind for case in classes.values() for kind in _mro(case))
            checks["add_classes"]([kind for kind in bases if kind.__module__ == names["__name__"]])
            return _attempt(names.get("setUpModule"))
        title, *marks = text.decode().split("\n")
        class_name, _, method = title.partition(".")
        case_class = classes.get(class_name)
        if case_class is None or not hasattr(case_class, method):
            return f"there is no {title} in the tests".encode()
        if class_name not in broken:
            broken[class_name] = _attempt(case_class.setUpClass)
        failure = broken[class_name] or _run(case_class, method, "expected to fail" in marks)
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


def _run(case_class: type, method: str, is_to_fail: bool) -> bytes | None:
    import unittest

    case, result, passed, ended = case_class(method), unittest.TestResult(), [], []
    result.addSuccess = passed.append  # pyright: ignore[reportAttributeAccessIssue]  (unittest gives the test by position)
    made = _returning(getattr(case, method), ended)
    setattr(made, _EXPECTS_FAILURE, is_to_fail)
    setattr(case, _EXPECTS_FAILURE, is_to_fail)  # the candidate may have marked it otherwise
    setattr(case, method, made)
    case.run(result)
    wrong = [text for _, text in (*result.failures, *result.errors)] + [f"skipped: {reason}" for _, reason in result.skipped]
    has_passed = result.expectedFailures if is_to_fail else passed == [case] and ended
    if not wrong and has_passed and not result.unexpectedSuccesses:
        return None
    said = "\n".join(wrong) or ("passed, and was expected to fail" if result.unexpectedSuccesses else "did not run to its end")
    return said.encode("utf-8", "backslashreplace")


def _returning(method: Any, ended: list[bool]) -> Callable[..., Any]:
    """Have the method note its end. A coroutine that nobody awaits notes none, nor does an exception that unittest lets go."""

    def run(*arguments: Any, **named: Any) -> Any:
        found = method(*arguments, **named)
        if not hasattr(type(found), "__await__"):
            ended.append(True)
        return found

    async def run_async(*arguments: Any, **named: Any) -> Any:
        found = await method(*arguments, **named)
        ended.append(True)
        return found

    code = getattr(method, "__code__", None)
    return run_async if code is not None and code.co_flags & _IS_COROUTINE else run
