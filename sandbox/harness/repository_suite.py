"""Runs the tests of a repository in which the candidate changed files, and tells of each test as it ends.

Here the candidate is a whole project, which may look at frames and patch what it likes, so nobody watches what it does. What
decides is not in its reach: its files that steer tests were put back before (`sandbox.judging.patched_repository`), plugins come
from the environment alone, and pytest's functions are compared with what they were. Tests of our own that must fail run behind
the others: whoever turns failures into passes turns these, too.

Trusted, standard library and the environment's pytest only. No class is defined here.
"""

from __future__ import annotations

import builtins
import os
import sys
import time

from pytest_words import RAN, is_worse, word_of
from suite_integrity import SUITES, equals_everything, forbid_rewriting, remembering, suite_modules

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_ARGUMENTS = ("--tb=short",)
_CHANCE, _DETAIL, _ALL_DETAILS = 16, 400, 60_000
_CANARIES = """
import pytest

def test_{a}_fails():
    assert {a!r} == {b!r}

def test_{b}_raises():
    raise RuntimeError({a!r})

def test_{a}_expects_another():
    with pytest.raises(KeyError):
        int("0")

def test_{b}_passes():
    assert {b!r} == {b!r}
"""
_CANARY_WORDS = ("FAILED", "FAILED", "FAILED", "PASSED")


def run_repository(
    job: dict[str, bytes],
    trusted: tuple[str, ...],
    say: Callable[..., None],
    hear: Callable[[], list[bytes]],
    accuse: Callable[[str], None],
    only_here: Callable[[], None],
) -> None:
    """Run the files, tell of each test, and return: the interpreter ends as it would after pytest."""
    root = os.getcwd()
    plugins = _environment_plugins()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ["PYTHONPATH"] = root
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    import pytest
    from _pytest.config import default_plugins

    for name in default_plugins:
        __import__(f"_pytest.{name}")
    keep, verify = remembering(accuse, trusted)
    forbid_rewriting(accuse, tuple(os.path.dirname(os.path.abspath(sys.modules[name].__file__ or "")) for name in SUITES[1:]))
    canary, its_tests = _write_canary()
    start = pytest.main
    say(b"code ran")
    hear()

    changed = frozenset(job["changed"].decode("utf-8", "surrogateescape").split("\n"))

    begun = [False]

    def remember() -> None:
        begun[0] = True
        keep(suite_modules())

    def look(config: Any) -> None:
        if not begun[0]:
            accuse("pytest was never begun as it should be")
        verify()
        _verify_plugins(config, root, changed, accuse)

    def collected(items: list[Any]) -> None:
        keep({module for item in items if (module := _test_module(item, accuse)) is not None})

    sys.path.insert(0, root)
    sys.argv = ["pytest"]
    more = [argument for argument in job["arguments"].decode().split("\n") if argument]
    files = [name for name in job["files"].decode().split("\n") if os.path.exists(name)]
    told: dict[str, str] = {}
    listener = _listener(say, remember, collected, look, job["protected"].decode(), root, told)
    code = 5
    _set_warnings(job["warnings"].decode())
    if files:
        arguments = [*_ARGUMENTS, *(f"-p{name}" for name in plugins), "--rootdir", root, *more, "--", *files, canary]
        code = start(arguments, plugins=[listener])
    only_here()
    if kind := equals_everything(changed, root):
        accuse(f"objects of {kind} equal whatever they are compared with")
    words = [word for node, word in told.items() if node.rpartition("::")[2] in its_tests]
    if files and int(code) in RAN and tuple(words) != _CANARY_WORDS:
        accuse(f"tests that must fail, and one that must pass, ended as {', '.join(words) or 'nothing'}")
    say(b"node", b"exit", str(int(code)).encode(), b"")
    say(b"done")


def _set_warnings(options: str) -> None:
    """Have PYTHONWARNINGS count from now on, as if Python had been started with it."""
    import warnings

    if not options:
        return
    os.environ["PYTHONWARNINGS"] = options
    sys.warnoptions[:] = options.split(",")
    warnings._processoptions(sys.warnoptions)  # pyright: ignore[reportAttributeAccessIssue]  (what Python itself calls at its start)


def _environment_plugins() -> list[str]:
    """List the plugins that the environment's packages offer; the project's own folder is not looked at."""
    from importlib.metadata import distributions

    offered = (entry for found in distributions() for entry in found.entry_points if entry.group == "pytest11")
    return sorted({entry.name for entry in offered})


def _write_canary() -> tuple[str, list[str]]:
    """Write tests whose outcomes are known, under names that nobody knows before."""
    folder = f"/tmp/{os.urandom(6).hex()}"
    os.mkdir(folder)
    path, a, b = f"{folder}/test_{os.urandom(6).hex()}.py", f"a{os.urandom(6).hex()}", f"b{os.urandom(6).hex()}"
    with open(path, "w") as file:
        file.write(_CANARIES.format(a=a, b=b))
    return path, [f"test_{a}_fails", f"test_{b}_raises", f"test_{a}_expects_another", f"test_{b}_passes"]


def _verify_plugins(config: Any, root: str, changed: frozenset[str], accuse: Callable[[str], None]) -> None:
    """Accuse where a plugin's code is of a file that the candidate changed. Attack: hooks registered by a fixture's module."""
    for plugin in config.pluginmanager.get_plugins():
        module = plugin if type(plugin) is type(sys) else sys.modules.get(getattr(type(plugin), "__module__", ""))
        file = os.path.realpath(getattr(module, "__file__", None) or "/")
        if file.startswith(f"{root}/") and file[len(root) + 1 :] in changed:
            accuse(f"a plugin of pytest is {file[len(root) + 1 :]}, which is the candidate's")


def _test_module(item: Any, accuse: Callable[[str], None]) -> Any:
    """Give the module of a test. Its assertions are its file's only if pytest loaded it. Attack: a finder of tests."""
    module = getattr(item, "module", None)
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    if loader is not None and type(loader).__module__ != "_pytest.assertion.rewrite":
        accuse(f"loaded the tests in {os.path.basename(str(item.path))} itself")
    return module


def _listener(
    say: Callable[..., None],
    remember: Callable[[], None],
    collected: Callable[[list[Any]], None],
    look: Callable[[Any], None],
    protected: str,
    root: str,
    told: dict[str, str],
) -> Any:
    """Make a plugin that tells the worst word on each test's set-up, call and tear-down once the test is over."""
    import re

    import pytest

    steers, words, details, room, looked = re.compile(protected), {}, {}, [_ALL_DETAILS], [0.0]
    clock = time.monotonic
    began = clock()

    def by_candidate(excinfo: Any) -> bool:
        """Tell whether a skip or an expected failure was raised in code under test, and not by the tests."""
        files = [str(entry.path) for entry in excinfo.traceback]
        inner = next((file for file in reversed(files) if file.startswith(f"{root}/")), None)
        return inner is not None and not steers.search(inner[len(root) + 1 :])

    def pytest_load_initial_conftests() -> None:
        remember()  # the environment's plugins are there and have changed what they change; no file of the project was read

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(items: list[Any]) -> None:
        collected(items)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
        yield
        if call.excinfo is not None and call.excinfo.errisinstance(pytest.xfail.Exception) and by_candidate(call.excinfo):
            words[item.nodeid] = "FAILED"
            details[item.nodeid] = "the code under test called it an expected failure"

    def pytest_runtest_logreport(report: Any) -> None:
        status = word_of(report)
        if status is not None and is_worse(status, words.get(report.nodeid)):
            words[report.nodeid] = status
            details[report.nodeid] = "" if report.passed else str(report.longreprtext)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(item: Any, nextitem: Any) -> Iterator[None]:
        yield
        word = words.pop(item.nodeid, "ERROR")
        detail = details.pop(item.nodeid, "").encode("utf-8", "backslashreplace")[-_DETAIL:][: max(0, room[0])]
        room[0] -= len(detail)
        told[item.nodeid] = word
        say(b"node", item.nodeid.encode("utf-8", "backslashreplace"), word.encode(), detail)
        before = clock()
        if looked[0] < 0.05 * (before - began) + 0.1 or os.urandom(1)[0] < _CHANCE:
            look(item.config)
            looked[0] += clock() - before

    def pytest_sessionfinish(session: Any) -> None:
        look(session.config)

    plugin: Any = type(sys)("parley_listener")
    plugin.pytest_load_initial_conftests = pytest_load_initial_conftests
    plugin.pytest_collection_modifyitems = pytest_collection_modifyitems
    plugin.pytest_runtest_makereport = pytest_runtest_makereport
    plugin.pytest_runtest_logreport = pytest_runtest_logreport
    plugin.pytest_runtest_protocol = pytest_runtest_protocol
    plugin.pytest_sessionfinish = pytest_sessionfinish
    return plugin
