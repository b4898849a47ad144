"""Run of test files with the environment's unchanged pytest, with a report on each node.

The tests are selected nodes of a folder, or all tests of a repository. The module is trusted, and
imports only the standard library and the environment's pytest. It runs on Python 3.5 and newer, so
annotations are comments. Parley has refused or restored files that control tests (see
`sandbox.judging`). Plugins come only from the environment.
"""

import builtins
import os
import sys

__builtins__ = dict(builtins.__dict__)  # The candidate can change the shared built-ins.

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator  # noqa: F401 - type comments name them
    from typing import Any  # noqa: F401 - type comments name it

_OF_NODES = (
    "-pno:cacheprovider",
    "-oaddopts=",
    "-q",
    "--no-header",
    "--continue-on-collection-errors",
)
_LAST_WORD = ("--tb=short", "--assert=rewrite", "--maxfail=0")
"""Options that override the project's own: every test runs to its end, and pytest rewrites
assertions.
"""
_RAN = (0, 1)
"""Exit codes with which pytest ends if the tests ran, whether they passed or failed."""
_NOTHING_RAN = 5
XFAIL_UNMARKED = "XFAIL_UNMARKED"
"""Outcome of a failed test that was marked as an expected failure only while it ran. The
candidate's code can set such a mark, so the outcome is not a pass.
"""
_WORST_FIRST = ("ERROR", "FAILED", "XPASS", XFAIL_UNMARKED, "SKIPPED", "XFAIL", "PASSED")
_DETAIL, _ALL_DETAILS, _LONGEST = 400, 60000, 2000


def run_pytest(job, say, hear, only_here):
    # type: (dict[str, bytes], Callable[..., None], Callable[[], list[bytes]], Callable[[], None]) -> None
    """Run the files, report each node, and return.

    The interpreter then ends as it would after pytest.
    """
    root, is_whole_project = os.getcwd(), job["kind"] == b"repository"
    lines = lines_of(job)
    show_project = prepare(root, lines, is_whole_project)
    start = _loaded_pytest(show_project).main
    plugins = _environment_plugins(show_project) if is_whole_project else []
    say(b"code ran")
    hear()
    wanted, report = frozenset(lines["nodes"]), reporter(say)
    outcomes = {}  # type: dict[str, tuple[str, str]]

    def tell(node, word, detail):
        # type: (str, str, str) -> None
        if not wanted:
            report(node, word, detail)
            return
        name = asked_by(node, wanted)
        if name is not None and is_worse(word, outcomes[name][0] if name in outcomes else None):
            outcomes[name] = (word, detail)

    files = [name for name in lines["files"] if os.path.exists(name)]
    code = _NOTHING_RAN
    set_warnings(job["warnings"].decode())
    if files:
        own_options = ["-p" + name for name in plugins] if is_whole_project else list(_OF_NODES)
        alone = ["-n0"] if "xdist" in plugins else []
        arguments = (
            own_options
            + ["--rootdir", root]
            + lines["arguments"]
            + list(_LAST_WORD)
            + alone
            + ["--"]
            + files
        )
        code = int(start(arguments, plugins=[_once_loaded(show_project), _listener(wanted, tell)]))
    only_here()
    for node, (word, detail) in outcomes.items() if code in _RAN else ():
        say(
            b"node",
            node.encode(),
            word.encode(),
            detail.encode("utf-8", "backslashreplace")[-_LONGEST:],
        )
    say(b"node", b"exit", str(code).encode(), b"")
    say(b"done")


def lines_of(job):
    # type: (dict[str, bytes]) -> dict[str, list[str]]
    """Split each text of a job into its lines, without blank ones."""
    return {
        name: [line for line in value.decode("utf-8", "surrogateescape").split("\n") if line]
        for name, value in job.items()
    }


def reporter(say):
    # type: (Callable[..., None]) -> Callable[[str, str, str], None]
    """Make a function that reports a node's outcome with the end of its failure's text.

    The texts of all failures together have a maximum length.
    """
    room = [_ALL_DETAILS]

    def report(node, word, detail):
        # type: (str, str, str) -> None
        last = detail.encode("utf-8", "backslashreplace")[-_DETAIL:][: max(0, room[0])]
        room[0] -= len(last)
        say(b"node", node.encode("utf-8", "backslashreplace"), word.encode(), last)

    return report


def asked_by(node, wanted):
    # type: (str, frozenset[str]) -> str | None
    """Return the wanted name that a node belongs to, or None.

    The name of a function includes all its parameters, and the name of a class all its methods.
    """
    if node in wanted:
        return node
    return max(
        (name for name in wanted if node.startswith((name + "[", name + "::"))),
        key=len,
        default=None,
    )


def _listener(wanted, tell):
    # type: (frozenset[str], Callable[[str, str, str], None]) -> Any
    """Make a plugin that reports each test's worst outcome of set-up, call and tear-down.

    The plugin reports a test when its tear-down has ended.

    Args:
        wanted: nodes that run even if the project's settings or plugins deselect them; all nodes if
            empty.
        tell: function that receives a node, pytest's outcome for it and the failure's text.
    """
    import pytest

    words = {}  # type: dict[str, str]
    details = {}  # type: dict[str, str]
    expectations = {}  # type: dict[Any, tuple[list[Any], bool]]
    expected = set()  # type: set[str]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(items):
        # type: (list[Any]) -> None
        items[:] = [
            item for item in items if not wanted or asked_by(item.nodeid, wanted) is not None
        ]

    def pytest_collection_finish(session):
        # type: (Any) -> None
        expectations.update(
            (item, (_xfail_marks(item), expects_failure(item))) for item in session.items
        )

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(item, call):
        # type: (Any, Any) -> Iterator[None]
        yield
        marks, is_of_unittest = expectations.get(item, ([], False))
        raised = call.excinfo.value if call.excinfo is not None else None
        if isinstance(raised, pytest.xfail.Exception):
            is_expected = is_of_unittest or any(mark[2].get("run") is False for mark in marks)
        else:
            is_expected = bool(marks) and _xfail_marks(item) == marks
        (expected.add if is_expected else expected.discard)(item.nodeid)

    def pytest_runtest_logreport(report):
        # type: (Any) -> None
        word = _word_of(report)
        if word == "XFAIL" and report.nodeid not in expected:
            word = XFAIL_UNMARKED
        if word is not None and is_worse(word, words.get(report.nodeid)):
            words[report.nodeid] = word
            details[report.nodeid] = "" if report.passed else str(report.longreprtext)

    def pytest_runtest_logfinish(nodeid):
        # type: (str) -> None
        tell(nodeid, words.pop(nodeid, "ERROR"), details.pop(nodeid, ""))

    plugin = type(sys)("parley_listener")
    hooks = (pytest_collection_modifyitems, pytest_collection_finish, pytest_runtest_makereport)  # type: tuple[Any, ...]
    for hook in (*hooks, pytest_runtest_logreport, pytest_runtest_logfinish):
        setattr(plugin, hook.__name__, hook)
    return plugin


def _xfail_marks(item):
    # type: (Any) -> list[tuple[int, tuple[Any, ...], dict[str, Any]]]
    """Return the marks that expect a test to fail: id and current arguments of each mark."""
    if hasattr(item, "iter_markers"):
        marks = list(item.iter_markers("xfail"))
    else:  # pytest 3.5 and older.
        marks = list(getattr(item.get_marker("xfail"), "_marks", ()))
    return [(id(mark), tuple(mark.args), dict(mark.kwargs)) for mark in marks]


def expects_failure(test):
    # type: (Any) -> bool
    """Return True if unittest's `expectedFailure` marks a test, its function or its class."""
    name = "__unittest_expecting_failure__"
    method = getattr(test, getattr(test, "_testMethodName", "obj"), None)
    return any(
        getattr(part, name, False) is True for part in (method, test, getattr(test, "cls", None))
    )


def _word_of(report):
    # type: (Any) -> str | None
    """Return pytest's outcome for a report; None for a set-up or tear-down that did not fail."""
    expected_to_fail = hasattr(report, "wasxfail")
    if report.skipped:
        return "XFAIL" if expected_to_fail else "SKIPPED"
    if report.failed:
        return "FAILED" if report.when == "call" else "ERROR"
    if report.when != "call":
        return None
    return "XPASS" if expected_to_fail else "PASSED"


def is_worse(word, before):
    # type: (str, str | None) -> bool
    """Return True if an outcome of a test is worse than an earlier one."""
    return before is None or _WORST_FIRST.index(word) < _WORST_FIRST.index(before)


def _once_loaded(call):
    # type: (Callable[[], None]) -> Any
    """Make a plugin that calls a function before pytest imports any file of the project.

    At that time the environment's plugins are loaded already.
    """
    import pytest

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_load_initial_conftests():
        # type: () -> Iterator[None]
        call()
        yield

    plugin = type(sys)("parley_project")
    setattr(plugin, pytest_load_initial_conftests.__name__, pytest_load_initial_conftests)
    return plugin


def _loaded_pytest(show_project):
    # type: (Callable[[], None]) -> Any
    try:
        import pytest
    except ImportError:  # The project under test is pytest itself.
        show_project()
        import pytest
    return pytest


def prepare(root, lines, is_whole_project):
    # type: (str, dict[str, list[str]], bool) -> Callable[[], None]
    """Set environment variables and the import path for the tests.

    Args:
        root: folder of the tests.
        lines: texts of the job, as lines.
        is_whole_project: True for a repository, False for a folder of files.

    Returns:
        A function that makes a whole project's modules importable. Before that no module of the
        project can replace pytest, its plugins or one of their libraries.
    """
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    sys.argv = ["pytest"]
    own = []  # type: list[str]
    if is_whole_project:
        sys.path[:0] = [root] + [os.path.join(root, path) for path in lines["paths"]]
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[: 1 + len(lines["paths"])])
        own = [
            folder
            for folder in sys.path
            if (os.path.realpath(folder) + "/").startswith(os.path.realpath(root) + "/")
        ]
    else:
        sys.dont_write_bytecode = True
        environment = next(
            (root + "/" + name for name in lines["environment"] if os.path.isdir(name)), None
        )
        sys.path[:0] = [root] + [
            root + "/" + path for path in lines["paths"] if os.path.isdir(path)
        ]
        if environment is not None:
            sys.path.insert(1 + len(lines["paths"]), environment)
    finders = sys.path_importer_cache  # type: Any
    finders.update(dict.fromkeys(own))  # None means that no importer searches this path.

    def show_project():
        # type: () -> None
        while own:
            finders.pop(own.pop(), None)

    return show_project


def set_warnings(options):
    # type: (str) -> None
    """Apply PYTHONWARNINGS from now on, as if Python had been started with it."""
    import warnings

    if not options:
        return
    os.environ["PYTHONWARNINGS"] = options
    sys.warnoptions[:] = options.split(",")
    warnings._processoptions(sys.warnoptions)  # pyright: ignore[reportAttributeAccessIssue]  (what Python itself calls at its start)


def _environment_plugins(show_project):
    # type: (Callable[[], None]) -> list[str]
    """Return the plugins that the environment's packages offer.

    If the project itself is a plugin, it is one of them.
    """
    from importlib.util import find_spec

    offered = _pytest_entry_points()
    if any(
        find_spec(module.partition(":")[0].partition(".")[0]) is None for module in offered.values()
    ):
        show_project()
    return sorted(offered)


def _pytest_entry_points():
    # type: () -> dict[str, str]
    """Return a map from plugin to module, read from the packages' metadata."""
    try:
        from importlib.metadata import distributions
    except ImportError:  # Python 3.7 and older.
        return _entry_points_by_files()
    entries = [
        entry
        for distribution in distributions()
        for entry in distribution.entry_points
        if entry.group == "pytest11"
    ]
    return {entry.name: entry.value for entry in entries}


def _entry_points_by_files():
    # type: () -> dict[str, str]
    from configparser import ConfigParser
    from glob import escape, glob

    offered = {}  # type: dict[str, str]
    for folder in sys.path:
        for path in glob(escape(folder) + "/*-info/entry_points.txt"):
            parser = ConfigParser(delimiters=("=",))
            parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]  (names keep their case)
            parser.read(path, encoding="utf-8")
            offered.update(parser.items("pytest11") if parser.has_section("pytest11") else ())
    return {name: module.strip() for name, module in offered.items()}
