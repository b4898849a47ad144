"""Runs pytest over node ids of the working folder and tells the outcome of each as pytest's own reports have it."""

from __future__ import annotations

import builtins
import os
import sys

from integrity import guard
from signal_frames import hide_frames_from_handlers
from watch import start_watch

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_OWN_ARGUMENTS = (
    *("-p", "no:cacheprovider", "-o", "addopts=", "-q", "--tb=short", "--no-header", "--continue-on-collection-errors"),
)
_RAN = (0, 1)  # pytest's exit codes for tests that ran, well or not
_WORST_FIRST = ("ERROR", "FAILED", "XPASS", "SKIPPED", "XFAIL", "PASSED")


def run_nodes(
    job: dict[str, bytes],
    trusted: tuple[str, ...],
    say: Callable[..., None],
    hear: Callable[[], list[bytes]],
    accuse: Callable[[str], None],
) -> None:
    """Run the nodes; returns after all were told, so that the interpreter ends as it would after pytest."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    own_pid, getpid, exit_now = os.getpid(), os.getpid, os._exit
    root = os.getcwd()
    names: dict[str, Any] = {"__builtins__": builtins}
    checks = guard(accuse, ("pytest", "_pytest", "pluggy", "unittest"), trusted, "<tests>", names, mocks=True, set_aside=False)
    found: dict[str, tuple[str, str]] = {}
    start, raises, failed = pytest.main, pytest.raises, pytest.fail.Exception
    files = tuple(f"{root}/{name}" for name in job["files"].decode().split("\n"))
    hide_frames_from_handlers()
    start_watch(accuse, trusted[0], trusted, files, names)
    sys.path.insert(0, root)
    sys.argv = ["pytest"]
    given = [name for name in job["files"].decode().split("\n") if os.path.exists(name)]
    more = [argument for argument in job["arguments"].decode().split("\n") if argument]
    wanted = frozenset(job["nodes"].decode().split("\n"))
    code = start([*_OWN_ARGUMENTS, "--rootdir", root, *more, "--", *given], plugins=[_listener(found, wanted)]) if given else 5
    if getpid() != own_pid:
        exit_now(0)
    checks["verify"]()
    checks["verify_modules"](True)
    _verify_raises(raises, failed, accuse)
    say(b"code ran")
    hear()
    if int(code) in _RAN:
        for node, (status, detail) in found.items():
            say(b"node", node.encode(), status.encode(), detail.encode("utf-8", "backslashreplace")[-2000:])
    say(b"done")


def _listener(found: dict[str, tuple[str, str]], wanted: frozenset[str]) -> Any:
    """A plugin that runs the wanted nodes and keeps the worst word on each one's set-up, call and tear-down."""

    def pytest_collection_modifyitems(items: list[Any]) -> None:
        items[:] = [item for item in items if item.nodeid in wanted]

    def pytest_runtest_logreport(report: Any) -> None:
        status = _word(report)
        if status is None:
            return
        before = found.get(report.nodeid)
        if before is None or _WORST_FIRST.index(status) < _WORST_FIRST.index(before[0]):
            found[report.nodeid] = (status, "" if report.passed else str(report.longreprtext))

    plugin = type(sys)("parley_listener")
    plugin.pytest_collection_modifyitems = pytest_collection_modifyitems
    plugin.pytest_runtest_logreport = pytest_runtest_logreport
    return plugin


def _word(report: Any) -> str | None:
    """pytest's word for a report; None for a set-up or tear-down that went well."""
    expected_to_fail = hasattr(report, "wasxfail")
    if report.skipped:
        return "XFAIL" if expected_to_fail else "SKIPPED"
    if report.failed:
        return "FAILED" if report.when == "call" else "ERROR"
    if report.when != "call":
        return None
    return "XPASS" if expected_to_fail else "PASSED"


def _verify_raises(raises: Any, failed: type[BaseException], accuse: Callable[[str], None]) -> None:
    try:
        with raises(ValueError):
            pass
    except failed:
        return
    accuse("an exception that is not raised passes for one that is")
