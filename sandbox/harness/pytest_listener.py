"""A plugin of pytest that tells what became of each test, as it ends, and has the runner look whether all is as it was.

Trusted, standard library and the environment's pytest only. No class is defined here.
"""

from __future__ import annotations

import builtins
import os
import sys
import time

from pytest_words import is_worse, word_of

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_CHANCE = 16
_function_kind = type(lambda: None)


def listener(
    asked_for: Callable[[str], bool],
    is_canary: Callable[[Any], bool],
    begins: Callable[[Any], None],
    collected: Callable[[list[Any]], None],
    look: Callable[[Any], None],
    by_candidate: Callable[[str], bool],
    accuse: Callable[[str], None],
    tell: Callable[[str, str, str], None],
) -> Any:
    """Make the plugin.

    Args:
        asked_for: whether a node is to run.
        is_canary: whether an item is a test of our own, which runs in any case.
        begins: called once the environment's plugins are there and have changed what they change.
        look: given pytest's configuration; accuses of what was changed. Called after each test as time allows.
        by_candidate: whether a file is neither the tests' nor outside of the project.
        tell: given a node, the worst word on its set-up, call and tear-down, and the failure's text, once the test is over.
    """
    import pytest

    words, details, looked, of_items = {}, {}, [0.0], {}
    clock = time.monotonic
    began = clock()

    def raised_by_candidate(excinfo: Any) -> bool:
        """Tell whether an expected failure was raised in code under test, and not by the tests."""
        files = [str(entry.path) for entry in excinfo.traceback]
        inner = next((file for file in reversed(files) if file.startswith(f"{os.getcwd()}/")), None)
        return inner is not None and by_candidate(inner)

    def own_of(item: Any) -> tuple[Any, Any]:
        """Give a test's function and its code."""
        found: Any = getattr(item, "obj", None)
        found = getattr(found, "__func__", found)
        return found, found.__code__ if type(found) is _function_kind else None

    def pytest_load_initial_conftests(early_config: Any) -> None:
        begins(early_config)  # behind pytest's own that change pytest, and before any file of the project is read

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(items: list[Any]) -> Iterator[None]:
        """Take the nodes that are asked for, whatever else a project's settings and plugins leave out."""
        canaries = [item for item in items if is_canary(item)]
        items[:] = [item for item in items if is_canary(item) or asked_for(item.nodeid)]
        yield
        there = {id(item) for item in items}
        items.extend(item for item in canaries if id(item) not in there)
        of_items.update((id(item), own_of(item)) for item in items)
        collected(items)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
        yield
        if call.excinfo is not None and call.excinfo.errisinstance(pytest.xfail.Exception) and raised_by_candidate(call.excinfo):
            words[item.nodeid] = "FAILED"
            details[item.nodeid] = "the code under test called it an expected failure"

    def pytest_runtest_logreport(report: Any) -> None:
        status = word_of(report)
        if status is not None and is_worse(status, words.get(report.nodeid)):
            words[report.nodeid] = status
            details[report.nodeid] = "" if report.passed else str(report.longreprtext)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(item: Any) -> Iterator[None]:
        function, code = own_of(item)
        before = of_items.get(id(item), (function, code))
        if code is not None and (function is not before[0] or code is not before[1]):
            accuse(f"replaced the test {item.name}")
        yield

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(item: Any, nextitem: Any) -> Iterator[None]:
        yield
        tell(item.nodeid, words.pop(item.nodeid, "ERROR"), details.pop(item.nodeid, ""))
        before = clock()
        if looked[0] < 0.05 * (before - began) + 0.1 or os.urandom(1)[0] < _CHANCE:
            look(item.config)
            looked[0] += clock() - before

    def pytest_sessionfinish(session: Any) -> None:
        look(session.config)

    plugin: Any = type(sys)("parley_listener")
    for hook in (
        *(pytest_load_initial_conftests, pytest_collection_modifyitems, pytest_runtest_makereport, pytest_runtest_logreport),
        *(pytest_runtest_call, pytest_runtest_protocol, pytest_sessionfinish),
    ):
        setattr(plugin, hook.__name__, hook)
    return plugin


def once_loaded(call: Callable[[], None]) -> Any:
    """Make a plugin that calls a function once the environment's plugins are loaded, before they or pytest read the project."""
    import pytest

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_load_initial_conftests() -> Iterator[None]:
        call()
        yield

    plugin: Any = type(sys)("parley_project")
    plugin.pytest_load_initial_conftests = pytest_load_initial_conftests
    return plugin
