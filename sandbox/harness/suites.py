"""Runs the tests of a suite: unittest's methods one at a time, or pytest over node ids of the working folder.

A pass counts only where the suite says so. `unittest` is the copy that was loaded before the candidate ran. After each method
`integrity` looks whether it is unchanged.
"""

from __future__ import annotations

import builtins
import os
import sys

from integrity import guard
from pytest_words import RAN, is_worse, word_of
from watch import start_watch

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones
__unittest = True  # unittest leaves frames of this file out of its tracebacks

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_EXPECTS_FAILURE = "__unittest_expecting_failure__"
_IS_COROUTINE = 0x80
_mro = type.__dict__["__mro__"].__get__
_OWN_ARGUMENTS = ("-pno:cacheprovider", "-oaddopts=", "-q", "--tb=short", "--no-header", "--continue-on-collection-errors")


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


def run_nodes(
    job: dict[str, bytes],
    trusted: tuple[str, ...],
    say: Callable[..., None],
    hear: Callable[[], list[bytes]],
    accuse: Callable[[str], None],
    only_here: Callable[[], None],
) -> None:
    """Run the nodes, tell of each, and return: the interpreter ends as it would after pytest."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    root, environment = os.getcwd(), job["environment"].decode()
    if environment and os.path.isdir(environment):
        sys.path.insert(0, f"{root}/{environment}")
        trusted = (*trusted, sys.path[0])
    import pytest

    names: dict[str, Any] = {"__builtins__": builtins}
    checks = guard(accuse, ("pytest", "_pytest", "pluggy", "unittest"), trusted, "<tests>", names, mocks=True, set_aside=False)
    found: dict[str, tuple[str, str]] = {}
    start = pytest.main
    files = tuple(f"{root}/{name}" for name in job["files"].decode().split("\n"))
    own = _project_files(root, job["candidate"].decode().split("\n")) if job["candidate"] else ()
    start_watch(accuse, trusted, frozenset((*files, *own)), names)
    paths = [path for path in job["paths"].decode().split("\n") if path and os.path.isdir(path)]
    sys.path[:0] = [root, *(f"{root}/{path}" for path in paths)]
    sys.dont_write_bytecode = True
    sys.argv = ["pytest"]
    given = [name for name in job["files"].decode().split("\n") if os.path.exists(name)]
    more = [argument for argument in job["arguments"].decode().split("\n") if argument]
    wanted = frozenset(job["nodes"].decode().split("\n"))
    code = start([*_OWN_ARGUMENTS, "--rootdir", root, *more, "--", *given], plugins=[_listener(found, wanted)]) if given else 5
    only_here()
    checks["verify"]()
    checks["verify_modules"](True)
    say(b"code ran")
    hear()
    if int(code) in RAN:
        for node, (status, detail) in found.items():
            say(b"node", node.encode(), status.encode(), detail.encode("utf-8", "backslashreplace")[-2000:])
    say(b"done")


def _project_files(root: str, by_candidate: list[str]) -> list[str]:
    """List the Python files of a project before anything of it runs, without the candidate's."""
    found = (f"{folder}/{name}" for folder, _, names in os.walk(root) for name in names if name.endswith(".py"))
    candidates = {f"{root}/{name}" for name in by_candidate}
    return [name for name in found if name not in candidates]


def _listener(found: dict[str, tuple[str, str]], wanted: frozenset[str]) -> Any:
    """Make a plugin that runs the wanted nodes and keeps the worst word on each one's set-up, call and tear-down.

    A node stands for all that is below it, as on pytest's command line: a function's parameters, a class's methods.
    """

    def asked_for(node: str) -> str | None:
        above = (one for one in wanted if node.startswith((f"{one}[", f"{one}::")))
        return node if node in wanted else max(above, key=len, default=None)

    def pytest_collection_modifyitems(items: list[Any]) -> None:
        items[:] = [item for item in items if asked_for(item.nodeid)]

    def pytest_runtest_logreport(report: Any) -> None:
        status, node = word_of(report), asked_for(report.nodeid)
        if status is not None and node is not None and is_worse(status, found.get(node, (None,))[0]):
            found[node] = (status, "" if report.passed else str(report.longreprtext))

    plugin = type(sys)("parley_listener")
    plugin.pytest_collection_modifyitems = pytest_collection_modifyitems
    plugin.pytest_runtest_logreport = pytest_runtest_logreport
    return plugin
