"""Runs test files with the environment's pytest, unchanged, and tells of each node: over nodes of a folder, or over a repository.

Trusted, standard library and the environment's pytest only. Files that steer tests are refused or put back before (see
`sandbox.judging`); plugins come from the environment alone.
"""

from __future__ import annotations

import builtins
import os
import sys

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_OF_NODES = ("-pno:cacheprovider", "-oaddopts=", "-q", "--no-header", "--continue-on-collection-errors")
_LAST_WORD = ("--tb=short", "--assert=rewrite", "--maxfail=0")
"""Behind the project's own options: all tests run to their ends, and assertions are pytest's."""
_RAN = (0, 1)
"""pytest's exit codes for tests that ran, well or not."""
_NOTHING_RAN = 5
_WORST_FIRST = ("ERROR", "FAILED", "XPASS", "SKIPPED", "XFAIL", "PASSED")
_DETAIL, _ALL_DETAILS, _LONGEST = 400, 60_000, 2000


def run_pytest(
    job: dict[str, bytes],
    say: Callable[..., None],
    hear: Callable[[], list[bytes]],
    only_here: Callable[[], None],
) -> None:
    """Run the files, tell of each node, and return: the interpreter ends as it would after pytest."""
    root, is_whole_project = os.getcwd(), job["kind"] == b"repository"
    lines = {name: [one for one in value.decode("utf-8", "surrogateescape").split("\n") if one] for name, value in job.items()}
    pytest = _loaded_pytest(lambda: _prepare(root, lines, is_whole_project))
    start = pytest.main
    say(b"code ran")
    hear()
    wanted, found, room = frozenset(lines["nodes"]), dict[str, tuple[str, str]](), [_ALL_DETAILS]

    def tell(node: str, word: str, detail: str) -> None:
        if wanted:
            name = asked_by(node, wanted)
            if name is not None and _is_worse(word, found.get(name, (None,))[0]):
                found[name] = (word, detail)
            return
        last = detail.encode("utf-8", "backslashreplace")[-_DETAIL:][: max(0, room[0])]
        room[0] -= len(last)
        say(b"node", node.encode("utf-8", "backslashreplace"), word.encode(), last)

    files = [name for name in lines["files"] if os.path.exists(name)]
    code = _NOTHING_RAN
    _set_warnings(job["warnings"].decode())
    if files:
        code = int(start(_arguments(root, lines, files, is_whole_project), plugins=[_listener(wanted, tell)]))
    only_here()
    for node, (word, detail) in found.items() if code in _RAN else ():
        say(b"node", node.encode(), word.encode(), detail.encode("utf-8", "backslashreplace")[-_LONGEST:])
    say(b"node", b"exit", str(code).encode(), b"")
    say(b"done")


def asked_by(node: str, wanted: frozenset[str]) -> str | None:
    """Give the wanted name that a node belongs to: a function stands for its parameters, a class for its methods."""
    if node in wanted:
        return node
    return max((one for one in wanted if node.startswith((f"{one}[", f"{one}::"))), key=len, default=None)


def _arguments(root: str, lines: dict[str, list[str]], files: Sequence[str], is_whole_project: bool) -> list[str]:
    plugins = _environment_plugins() if is_whole_project else []
    own_options = (*([] if is_whole_project else _OF_NODES), *(f"-p{name}" for name in plugins))
    alone = ("-n0",) if "xdist" in plugins else ()
    return [*own_options, "--rootdir", root, *lines["arguments"], *_LAST_WORD, *alone, "--", *files]


def _listener(wanted: frozenset[str], tell: Callable[[str, str, str], None]) -> Any:
    """Make a plugin that tells each test's worst word of set-up, call and tear-down, once the test is over.

    Args:
        wanted: nodes that run, whatever else a project's settings and plugins choose; all where it is empty.
        tell: given a node, pytest's word for it and the failure's text.
    """
    import pytest

    words, details = dict[str, str](), dict[str, str]()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(items: list[Any]) -> None:
        items[:] = [item for item in items if not wanted or asked_by(item.nodeid, wanted) is not None]

    def pytest_runtest_logreport(report: Any) -> None:
        word = _word_of(report)
        if word is not None and _is_worse(word, words.get(report.nodeid)):
            words[report.nodeid] = word
            details[report.nodeid] = "" if report.passed else str(report.longreprtext)

    def pytest_runtest_logfinish(nodeid: str) -> None:
        tell(nodeid, words.pop(nodeid, "ERROR"), details.pop(nodeid, ""))

    plugin: Any = type(sys)("parley_listener")
    for hook in (pytest_collection_modifyitems, pytest_runtest_logreport, pytest_runtest_logfinish):
        setattr(plugin, hook.__name__, hook)
    return plugin


def _word_of(report: Any) -> str | None:
    """Give pytest's word for a report; None for a set-up or tear-down that went well."""
    expected_to_fail = hasattr(report, "wasxfail")
    if report.skipped:
        return "XFAIL" if expected_to_fail else "SKIPPED"
    if report.failed:
        return "FAILED" if report.when == "call" else "ERROR"
    if report.when != "call":
        return None
    return "XPASS" if expected_to_fail else "PASSED"


def _is_worse(word: str, before: str | None) -> bool:
    return before is None or _WORST_FIRST.index(word) < _WORST_FIRST.index(before)


def _loaded_pytest(prepare: Callable[[], None]) -> Any:
    """Import the environment's pytest before the project's folders are on the path, but for a project that is pytest."""
    try:
        import pytest
    except ModuleNotFoundError:
        prepare()
        import pytest
    else:
        prepare()
    return pytest


def _prepare(root: str, lines: dict[str, list[str]], is_whole_project: bool) -> None:
    """Set variables and the path as the tests of a kind have them."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    sys.argv = ["pytest"]
    if is_whole_project:
        sys.path[:0] = [root, *(os.path.join(root, path) for path in lines["paths"])]
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[: 1 + len(lines["paths"])])
        return
    sys.dont_write_bytecode = True
    environment = next((f"{root}/{name}" for name in lines["environment"] if os.path.isdir(name)), None)
    sys.path[:0] = [root, *(f"{root}/{path}" for path in lines["paths"] if os.path.isdir(path))]
    if environment is not None:
        sys.path.insert(1 + len(lines["paths"]), environment)


def _set_warnings(options: str) -> None:
    """Have PYTHONWARNINGS count from now on, as if Python had been started with it."""
    import warnings

    if not options:
        return
    os.environ["PYTHONWARNINGS"] = options
    sys.warnoptions[:] = options.split(",")
    warnings._processoptions(sys.warnoptions)  # pyright: ignore[reportAttributeAccessIssue]  (what Python itself calls at its start)


def _environment_plugins() -> list[str]:
    """List the plugins that the environment's packages offer, among them the project itself where it is a plugin."""
    from importlib.metadata import distributions

    return sorted({entry.name for found in distributions() for entry in found.entry_points if entry.group == "pytest11"})
