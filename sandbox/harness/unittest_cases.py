"""Runs unittest's test methods one at a time, as unittest itself does, and believes a pass only where unittest says so.

`unittest` is the copy that was loaded before the candidate ran; `integrity` checks after each method that it is as it was.
"""

from __future__ import annotations

import builtins

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones
_EXPECTS_FAILURE = "__unittest_expecting_failure__"
_IS_COROUTINE = 0x80
_mro = type.__dict__["__mro__"].__get__
_KEPT = "ended by an exception that unittest keeps for itself"
__unittest = True  # unittest leaves frames of this file out of its tracebacks

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def case_runner(
    names: dict[str, Any], run_statements: Callable[[bytes, int], None], checks: dict[str, Any]
) -> Callable[[bytes, bytes, int], bytes | None]:
    """A function that runs the tests' module, then cases of it; it gives None for a pass, else what went wrong."""
    broken: dict[str, bytes | None] = {}
    classes: dict[str, type] = {}

    def run_case(kind: bytes, text: bytes, flags: int) -> bytes | None:
        if kind == b"module":
            run_statements(text, flags)
            classes.update(_case_classes(names))
            kinds = (kind for case in classes.values() for kind in _mro(case))
            checks["add_classes"]([kind for kind in kinds if kind.__module__ == names["__name__"]])
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


def _case_classes(names: dict[str, Any]) -> dict[str, type]:
    import unittest

    return {name: value for name, value in names.items() if isinstance(value, type) and issubclass(value, unittest.TestCase)}


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
    silent = unittest.case._ShouldStop  # pyright: ignore[reportAttributeAccessIssue]  (no stub has it: it is private)
    made = _returning(getattr(case, method), silent, ended)
    setattr(made, _EXPECTS_FAILURE, is_to_fail)
    setattr(case, _EXPECTS_FAILURE, is_to_fail)  # and not what the candidate may have marked
    setattr(case, method, made)
    ends = _watched_steps(case, silent)
    case.run(result)
    wrong = [text for _, text in (*result.failures, *result.errors)] + [f"skipped: {reason}" for _, reason in result.skipped]
    has_passed = result.expectedFailures if is_to_fail else passed == [case] and ended
    if not wrong and has_passed and not result.unexpectedSuccesses and all(ends):
        return None
    said = "\n".join(wrong) or ("passed, and was expected to fail" if result.unexpectedSuccesses else "did not run to its end")
    return said.encode("utf-8", "backslashreplace")


def _watched_steps(case: Any, silent: type[BaseException]) -> list[list[bool]]:
    """Of a case with coroutines: what tells of each step before and after the test whether it came to its end.

    What runs them is asyncio's, which the candidate can change.
    """
    ends: list[list[bool]] = []

    def watched(step: Callable[..., Any]) -> Callable[..., Any]:
        ends.append([])
        return _returning(step, silent, ends[-1])

    if hasattr(case, "addAsyncCleanup"):
        add = case.addAsyncCleanup
        case.asyncSetUp, case.asyncTearDown = watched(case.asyncSetUp), watched(case.asyncTearDown)
        case.addAsyncCleanup = lambda step, /, *arguments, **named: add(watched(step), *arguments, **named)
    return ends


def _returning(method: Any, silent: type[BaseException], ended: list[bool]) -> Callable[..., Any]:
    """The method, whose end by the one exception that unittest takes for success is a failure.

    It notes that it came to its end, which a coroutine that nobody awaited does not.
    """

    def run(*arguments: Any, **named: Any) -> Any:
        try:
            found = method(*arguments, **named)
        except silent:
            raise AssertionError(_KEPT) from None
        if type(found) is not _COROUTINE:
            ended.append(True)
        return found

    async def run_async(*arguments: Any, **named: Any) -> Any:
        try:
            found = await method(*arguments, **named)
        except silent:
            raise AssertionError(_KEPT) from None
        ended.append(True)
        return found

    code = getattr(method, "__code__", None)
    return run_async if code is not None and code.co_flags & _IS_COROUTINE else run


async def _nothing() -> None:
    return


_coroutine = _nothing()
_COROUTINE = type(_coroutine)
_coroutine.close()
