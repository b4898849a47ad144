"""Runs a project's tests with pytest: nodes that its candidate was asked for, or files of a repository that it changed.

In a repository the candidate is a whole project, which may look at frames and patch what it likes: nobody watches what it does.
Both are held to three things. The tests' text is what it was before code of the project ran (`tests_text`). Functions of pytest
and of the tests are the objects that they were (`suite_integrity`). No object of the candidate's that equals much takes part in a
comparison of the tests (`comparison`, `forged_objects`). Plugins come from the environment alone, and tests of our own run behind
the others (`canary_tests`).

Trusted, standard library and the environment's pytest only. No class is defined here.
"""

from __future__ import annotations

import builtins
import os
import sys

from canary_tests import missing_canaries, untrue_canaries, written_canaries
from comparison import comparing
from forged_objects import excusing
from helper_modules import helpers_of
from instrumentation import leniency
from pytest_listener import listener, once_loaded
from pytest_settings import settings_of
from pytest_words import RAN, is_worse
from suite_integrity import remembering, suite_modules
from tests_text import have_loaded, texts_of
from watch import start_watch

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_OF_NODES = ("-pno:cacheprovider", "-oaddopts=", "-q", "--no-header", "--continue-on-collection-errors")
_LAST_WORD = ("--tb=short", "--assert=rewrite", "--maxfail=0")
"""Behind the project's own options: all tests run to their ends, and assertions are pytest's."""
_DETAIL, _ALL_DETAILS = 400, 60_000
_LONGEST = 2000


def run_pytest(
    job: dict[str, bytes],
    trusted: tuple[str, ...],
    say: Callable[..., None],
    hear: Callable[[], list[bytes]],
    accuse: Callable[[str], None],
    only_here: Callable[[], None],
) -> None:
    """Run the files, tell of each node, and return: the interpreter ends as it would after pytest."""
    root, is_whole_project = os.getcwd(), job["kind"] == b"repository"
    lines = {name: [one for one in value.decode("utf-8", "surrogateescape").split("\n") if one] for name, value in job.items()}
    trusted, show_project = _prepare(root, lines, trusted, is_whole_project)
    pytest = _loaded_pytest(show_project)
    plugins = _environment_plugins(show_project) if is_whole_project else []
    suites = suite_modules()
    canary, outcomes = written_canaries()
    texts = texts_of(root, frozenset(lines["candidate"]), _steering(job["protected"].decode(), lines["files"]), trusted)
    texts["add"](canary)
    loaded: list[Any] = []
    keep, verify = remembering(accuse, texts["is_library"])
    verify_hooks = _plugin_verifier(suites, texts["is_genuine"], accuse)
    here = _watched(root, lines, trusted, accuse) if not is_whole_project else lambda: None
    anything = __import__("unittest.mock").mock.ANY if texts["mentions"](b"ANY") else None
    named = (canary, *(f"{root}/{name}" for name in lines["files"]))

    def is_test(path: str) -> bool:
        return path in named or any(path.startswith(f"{one}/") for one in named)

    own = leniency(None, anything, pytest.approx)
    compare = comparing(accuse, here, lambda _: None, own, excusing(texts, own["holds"], anything, loaded))
    have_loaded(sys.modules["_pytest.assertion.rewrite"], texts, compare, lambda *said: note(*said), is_test, accuse)
    start = pytest.main
    say(b"code ran")
    hear()
    begun = [False]

    def note(module: Any, imports: list[tuple[int, str]]) -> None:
        loaded.append(module)
        helpers, other = helpers_of(module, imports, root, texts["is_steering"], texts["is_genuine"])
        if other:
            accuse(f"put another function in the place of {other}")
        keep([module, *helpers])

    def begins(config: Any) -> None:
        begun[0] = True
        keep(suite_modules())
        verify_hooks(config, True)

    def look(config: Any) -> None:
        if not begun[0]:
            accuse("pytest was never begun as it should be")
        verify()
        verify_hooks(config, False)

    def collected(items: list[Any]) -> None:
        for item in items:
            module = getattr(item, "module", None)
            if module is not None and not any(module is one for one in loaded):
                accuse(f"loaded the tests in {item.nodeid.partition('::')[0]} itself")

    told: dict[str, str] = {}
    found: dict[str, tuple[str, str]] = {}
    wanted, room = frozenset(lines["nodes"]), [_ALL_DETAILS]

    def above(node: str) -> str | None:
        """Give what a node is asked for by: a function stands for its parameters, a class for its methods."""
        return (
            node
            if node in wanted
            else max((one for one in wanted if node.startswith((f"{one}[", f"{one}::"))), key=len, default=None)
        )

    def tell(node: str, word: str, detail: str) -> None:
        told[node] = word
        if wanted:
            name = above(node)
            if name is not None and is_worse(word, found.get(name, (None,))[0]):
                found[name] = (word, detail)
            return
        last = detail.encode("utf-8", "backslashreplace")[-_DETAIL:][: max(0, room[0])]
        room[0] -= len(last)
        say(b"node", node.encode("utf-8", "backslashreplace"), word.encode(), last)

    def is_canary(item: Any) -> bool:
        return item.name in outcomes

    def asked_for(node: str) -> bool:
        return not wanted or above(node) is not None

    def by_candidate(file: str) -> bool:
        return not texts["is_steering"](file)

    files = [name for name in lines["files"] if os.path.exists(name)]
    code = 5
    _set_warnings(job["warnings"].decode())
    if files:
        own_options = (*([] if is_whole_project else _OF_NODES), *(f"-p{name}" for name in plugins))
        given = (*own_options, *settings_of(root, files), "--rootdir", root, *lines["arguments"])
        alone = ("-n0",) if "xdist" in plugins else ()
        plugin = listener(asked_for, is_canary, begins, collected, look, by_candidate, accuse, tell)
        code = start([*given, *_LAST_WORD, *alone, "--", *files, canary], plugins=[once_loaded(show_project), plugin])
    only_here()
    if untrue := untrue_canaries(outcomes, told):
        accuse(untrue)
    ended = str(int(code))
    if files and int(code) in RAN and missing_canaries(outcomes, told):
        ended = "of settings that keep tests from running"
    for node, (word, detail) in found.items() if ended in map(str, RAN) else ():
        say(b"node", node.encode(), word.encode(), detail.encode("utf-8", "backslashreplace")[-_LONGEST:])
    say(b"node", b"exit", ended.encode(), b"")
    say(b"done")


def _prepare(
    root: str, lines: dict[str, list[str]], trusted: tuple[str, ...], is_whole_project: bool
) -> tuple[tuple[str, ...], Callable[[], None]]:
    """Set variables and the path as the tests of a kind have them.

    Returns:
        Folders that count as libraries, and a function that lets a whole project's modules be found. Until then none of them is
        imported, whatever its name. Attack: a module of the name of one that pytest imports, which changes unittest.
    """
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    sys.argv = ["pytest"]
    if is_whole_project:
        sys.path[:0] = [root, *(os.path.join(root, path) for path in lines["paths"])]
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[: 1 + len(lines["paths"])])
        own = [folder for folder in sys.path if f"{os.path.realpath(folder)}/".startswith(f"{os.path.realpath(root)}/")]
        finders: Any = sys.path_importer_cache
        finders.update(dict.fromkeys(own))  # None: nothing is to be looked for there

        def show_project() -> None:
            while own:
                finders.pop(own.pop(), None)

        return trusted, show_project
    sys.dont_write_bytecode = True
    environment = next((f"{root}/{name}" for name in lines["environment"] if os.path.isdir(name)), None)
    sys.path[:0] = [root, *(f"{root}/{path}" for path in lines["paths"] if os.path.isdir(path))]
    if environment is None:
        return trusted, lambda: None
    sys.path.insert(1 + len(lines["paths"]), environment)
    return (*trusted, environment), lambda: None


def _loaded_pytest(show_project: Callable[[], None]) -> Any:
    try:
        import pytest
    except ModuleNotFoundError:  # the project is pytest
        show_project()
        import pytest
    from _pytest.config import default_plugins

    for name in default_plugins:
        __import__(f"_pytest.{name}")
    return pytest


def _steering(protected: str, files: list[str]) -> Callable[[str], bool]:
    import re

    search, named = re.compile(protected).search, frozenset(files)
    return lambda name: name in named or search(name) is not None


def _watched(root: str, lines: dict[str, list[str]], trusted: tuple[str, ...], accuse: Callable[[str], None]) -> Any:
    """Have the candidate watched; of a project, where libraries may look at frames, only its own files."""
    tests = frozenset(f"{root}/{name}" for name in lines["files"])
    own: frozenset[str] = frozenset()
    if lines["project"]:
        every = (f"{folder}/{name}" for folder, _, names in os.walk(root) for name in names if name.endswith(".py"))
        own = frozenset(every) - {f"{root}/{name}" for name in lines["candidate"]}
    return start_watch(accuse, trusted, tests | own, {"__builtins__": builtins}, [os.getpid()])[0]


def _set_warnings(options: str) -> None:
    """Have PYTHONWARNINGS count from now on, as if Python had been started with it."""
    import warnings

    if not options:
        return
    os.environ["PYTHONWARNINGS"] = options
    sys.warnoptions[:] = options.split(",")
    warnings._processoptions(sys.warnoptions)  # pyright: ignore[reportAttributeAccessIssue]  (what Python itself calls at its start)


def _environment_plugins(show_project: Callable[[], None]) -> list[str]:
    """List the plugins that the environment's packages offer, among them the project itself where it is a plugin."""
    from importlib.metadata import distributions
    from importlib.util import find_spec

    offered = [entry for found in distributions() for entry in found.entry_points if entry.group == "pytest11"]
    if any(find_spec(entry.value.partition(":")[0].partition(".")[0]) is None for entry in offered):
        show_project()
    return sorted({entry.name for entry in offered})


def _plugin_verifier(
    suites: list[Any], is_genuine: Callable[[Any], bool], accuse: Callable[[str], None]
) -> Callable[[Any, bool], None]:
    """Make a function that looks at all hooks: those of the start stay, others have to be of pytest, or of a file that the
    candidate did not write. Attack: hooks registered by a fixture's module."""
    holders = (*suites, *(kind for module in suites for kind in vars(module).values() if isinstance(kind, type)))
    hooks = (value for holder in holders for name, value in vars(holder).items() if name.startswith("pytest_"))
    of_pytest = {code: code for hook in hooks if (code := getattr(hook, "__code__", None)) is not None}
    seen: dict[int, Any] = {}

    def verify(config: Any, is_start: bool) -> None:
        for caller in list(vars(config.hook).values()):
            for found in caller.get_hookimpls() if hasattr(caller, "get_hookimpls") else ():
                function = getattr(found.function, "__func__", found.function)
                if id(function) in seen:
                    continue
                code = getattr(function, "__code__", None)
                if not is_start and (code is None or not (of_pytest.get(code) is code or is_genuine(code))):
                    accuse(f"a plugin of pytest has a {getattr(function, '__name__', 'hook')} of the candidate's")
                seen[id(function)] = function

    return verify
