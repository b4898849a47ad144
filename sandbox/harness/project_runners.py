"""Run of a repository's tests by the project's own test runner, whose results are reported.

The runners are Django's `runtests.py`, SymPy's `bin/test` and unittest. The module is trusted. It
runs on Python 3.5 and newer, so annotations are comments. For unittest, a result class of this
module is set before any module of the project is imported. For SymPy, a class of this module
replaces the reporter as soon as the reporter's module is imported. Parley restores the runners'
files before the run (see `sandbox.judging`).
"""

import builtins
import os
import sys

from pytest_suite import (
    XFAIL_UNMARKED,
    expects_failure,
    is_worse,
    lines_of,
    prepare,
    reporter,
    set_warnings,
)

__builtins__ = dict(builtins.__dict__)  # The candidate can change the shared built-ins.

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator  # noqa: F401 - type comments name them
    from typing import Any  # noqa: F401 - type comments name it

_REPORTERS = ("sympy.testing.runtests", "sympy.utilities.runtests")
_OWN_RUNNER = "--use-sympy-runner"
_CRASHED = "crashed"


def run_project(job, say, hear, only_here):
    # type: (dict[str, bytes], Callable[..., None], Callable[[], list[bytes]], Callable[[], None]) -> None
    """Run the command, report each test, and return.

    The interpreter then ends as it would after the runner. The job's `command` is the path of the
    runner's script below the root, or `-m` and a module, with the runner's arguments.
    """
    lines, root = lines_of(job), os.getcwd()
    is_sympy = job["runner"] == b"sympy"
    report = reporter(say)
    outcomes = {}  # type: dict[str, str]

    def tell(name, word, detail):
        # type: (str, str, str) -> None
        """Report a test's outcome, or the worst outcome of tests with the same name."""
        if is_worse(word, outcomes.get(name)):
            outcomes[name] = word
            report(name, word, "" if word == "PASSED" else detail)

    if not is_sympy:
        _listen_to_unittest(tell)
    prepare(root, lines, True)()
    say(b"code ran")
    hear()
    set_warnings(job["warnings"].decode())
    command = _with_own_runner(lines["command"]) if is_sympy else lines["command"]
    code = _ended(command, lambda: _listen_to_sympy(tell) if is_sympy else None)
    only_here()
    say(b"node", b"exit", code.encode(), b"")
    say(b"done")


def _ended(command, before):
    # type: (list[str], Callable[[], None]) -> str
    """Run the command in this process, and return its exit code, or `crashed`."""
    import runpy
    import traceback

    try:
        if command[0] == "-m":
            sys.argv = command[1:]
            before()
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(command)
            sys.path.insert(0, os.path.dirname(os.path.abspath(command[0])))
            before()
            runpy.run_path(command[0], run_name="__main__")
    except SystemExit as ending:
        return str(
            int(ending.code) if isinstance(ending.code, int) else 0 if ending.code is None else 1
        )
    except BaseException:  # noqa: BLE001 - whatever the runner raises, no test of it has passed
        traceback.print_exc()
        return _CRASHED
    return "0"


def _with_own_runner(command):
    # type: (list[str]) -> list[str]
    """Make SymPy's script use SymPy's own runner.

    From 2023 on the script used pytest unless the command selects a runner.
    """
    with open(command[0], encoding="utf-8") as script:
        has_choice = _OWN_RUNNER in script.read()
    return [command[0], _OWN_RUNNER, *command[1:]] if has_choice else command


def _listen_to_unittest(tell):
    # type: (Callable[[str, str, str], None]) -> None
    """Make unittest's runners use a result class that reports each test once it is over."""
    import unittest

    base = unittest.TextTestResult
    run_suite = unittest.TextTestRunner.run  # type: Any
    expected = set()  # type: set[str]
    running = []  # type: list[Any]
    outcomes = []  # type: list[tuple[str, str]]

    def names_of(test):
        # type: (Any) -> tuple[str, ...]
        """Return a test's names in the runner's log: its own, and its docstring's first line."""
        doc = test.shortDescription()
        return (str(test), doc.strip()) if doc else (str(test),)

    def note(test, word, detail):
        # type: (Any, str, str) -> None
        if running and running[-1] is test:
            outcomes.append((word, detail))
        else:  # The set-up of a class or module, or a test that was abandoned before it began.
            for name in names_of(test):
                tell(name, word, detail)

    def text_of(errors):
        # type: (list[Any]) -> str
        return str(errors[-1][1]) if errors else ""

    def start_test(self, test):
        # type: (Any, Any) -> None
        running.append(test)
        del outcomes[:]
        base.startTest(self, test)

    def stop_test(self, test):
        # type: (Any, Any) -> None
        base.stopTest(self, test)
        word, detail = "", ""
        for next_word, next_detail in outcomes or [("ERROR", "it did not end")]:
            if not word or is_worse(next_word, word):
                word, detail = next_word, next_detail
        del running[:]
        for name in names_of(test):
            tell(name, word, detail)

    def add_success(self, test):
        # type: (Any, Any) -> None
        base.addSuccess(self, test)
        note(test, "PASSED", "")

    def add_error(self, test, err):
        # type: (Any, Any, Any) -> None
        base.addError(self, test, err)
        note(test, "ERROR", text_of(self.errors))

    def add_failure(self, test, err):
        # type: (Any, Any, Any) -> None
        base.addFailure(self, test, err)
        note(test, "FAILED", text_of(self.failures))

    def add_skip(self, test, reason):
        # type: (Any, Any, str) -> None
        base.addSkip(self, test, reason)
        note(test, "SKIPPED", str(reason))

    def add_expected_failure(self, test, err):
        # type: (Any, Any, Any) -> None
        base.addExpectedFailure(self, test, err)
        note(test, "XFAIL" if test.id() in expected else XFAIL_UNMARKED, "")

    def add_unexpected_success(self, test):
        # type: (Any, Any) -> None
        base.addUnexpectedSuccess(self, test)
        note(test, "XPASS", "")

    def add_sub_test(self, test, subtest, err):
        # type: (Any, Any, Any, Any) -> None
        base.addSubTest(self, test, subtest, err)
        if err is not None:
            note(test, "FAILED", str(err[1]))

    def run(self, test):
        # type: (Any, Any) -> Any
        """Run a suite, after noting which of its tests are expected to fail."""
        expected.update(member.id() for member in _tests_in(test) if expects_failure(member))
        return run_suite(self, test)

    runner = unittest.TextTestRunner  # type: Any
    runner.run = run
    methods = {
        "startTest": start_test,
        "stopTest": stop_test,
        "addSuccess": add_success,
        "addError": add_error,
        "addFailure": add_failure,
        "addSkip": add_skip,
        "addExpectedFailure": add_expected_failure,
        "addUnexpectedSuccess": add_unexpected_success,
        "addSubTest": add_sub_test,
    }  # type: dict[str, Any]
    unittest.TextTestRunner.resultclass = type("TextTestResult", (base,), methods)


def _tests_in(suite):
    # type: (Any) -> Iterator[Any]
    """Yield the tests of a suite and of all suites in it."""
    if not hasattr(suite, "__iter__"):
        yield suite
        return
    for member in suite:
        yield from _tests_in(member)


def _listen_to_sympy(tell):
    # type: (Callable[[str, str, str], None]) -> None
    """Import SymPy's test runner, and set a reporter class that reports each test when it ends."""
    from importlib import import_module

    os.environ["SYMPY_USE_CACHE"] = (
        "no" if "-C" in sys.argv else os.environ.get("SYMPY_USE_CACHE", "yes")
    )
    try:
        module = import_module(_REPORTERS[0])  # type: Any
    except ImportError:  # SymPy 1.5 and older.
        module = import_module(_REPORTERS[1])
    base = module.PyTestReporter
    expecting = _code_of_expectations(module)
    running = []  # type: list[str]
    expected = []  # type: list[bool]

    def entering_test(self, f):
        # type: (Any, Any) -> None
        running[:] = [f.__name__]
        expected[:] = [
            any(getattr(function, "__code__", None) is expecting for function in _wrapped_in(f))
        ]
        base.entering_test(self, f)

    def reporting(method, word):
        # type: (str, str) -> Any
        def report(self, *arguments):
            # type: (Any, Any) -> None
            names = running[:]
            # The base class's method, which the candidate may have replaced, cannot report another
            # outcome.
            del running[:]
            for name in names:
                tell(
                    name,
                    XFAIL_UNMARKED if word == "XFAIL" and not expected[0] else word,
                    _shown(arguments),
                )
            getattr(base, method)(self, *arguments)

        return report

    words = {
        "test_pass": "PASSED",
        "test_fail": "FAILED",
        "test_exception": "ERROR",
        "test_skip": "SKIPPED",
    }
    words.update(test_xfail="XFAIL", test_xpass="XPASS")
    methods = {name: reporting(name, word) for name, word in words.items()}
    methods["entering_test"] = entering_test
    module.PyTestReporter = type("PyTestReporter", (base,), methods)


def _code_of_expectations(module):
    # type: (Any) -> Any
    """Return the code of the functions that SymPy's decorator `XFAIL` makes.

    All these functions have the same code object.
    """
    from importlib import import_module

    decorators = import_module(module.__name__.rpartition(".")[0] + ".pytest")  # type: Any
    return decorators.XFAIL(_code_of_expectations).__code__


def _wrapped_in(function):
    # type: (Any) -> Iterator[Any]
    """Yield a function, and the functions that its decorators wrapped."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


def _shown(arguments):
    # type: (tuple[Any, ...]) -> str
    """Return the text of the reporter's arguments: an exception's triple, or a value."""
    if not arguments:
        return ""
    if isinstance(arguments[0], tuple) and len(arguments[0]) == 3:
        import traceback

        return "".join(traceback.format_exception(*arguments[0]))
    return str(arguments[0])
