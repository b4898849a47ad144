"""Holds the tests' text to what it was before any code of the project ran, and has their comparisons looked at.

pytest must compile the file's text of then, and another loader must run, under such a file's name, what that text compiles to.
A function counts as a file's by its code, never by the name of a file that it bears.

Trusted, standard library and the environment's pytest only. No class is defined here.
"""

from __future__ import annotations

import builtins
import os
import sys
import warnings
from _blake2 import blake2b  # pyright: ignore[reportMissingImports]  (a built-in module: hashlib would import OpenSSL)
from importlib.machinery import SourceFileLoader

from helper_modules import imports_of
from instrumentation import ast, bound, instrumented, own_finder

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

_code_kind: Any = type((lambda: None).__code__)
_function_kind = type(lambda: None)


def texts_of(
    root: str, by_candidate: frozenset[str], steers: Callable[[str], Any], trusted: tuple[str, ...]
) -> dict[str, Callable[..., Any]]:
    """Remember the tree's Python files, but for the candidate's, and make functions that ask for them.

    Args:
        steers: whether a path below `root` decides what tests do.
        trusted: folders outside of the tree, which no program writes to.

    Returns:
        By name: `is_steering(path)`; `is_others(path)`, not the candidate's; `has_changed(path, text)`; `is_library(code)` and
        `is_genuine(code)`: whether a library's file, or any that the candidate did not write, compiles to it; `add(path)`;
        `note(code)`: pytest made this code of a file's text; `mentions(word)`: whether a file that steers has it.
    """
    digests: dict[str, bytes] = {}
    steering: set[str] = set()
    compiled: dict[str, frozenset[Any]] = {}
    libraries = tuple(f"{folder}/" for folder in trusted)
    mentioned: list[bytes] = []
    noted: dict[int, Any] = {}

    def add(path: str) -> None:
        with open(path, "rb") as file:
            text = file.read()
        digests[path] = blake2b(text, digest_size=16).digest()
        if path[: len(root) + 1] != f"{root}/" or steers(path[len(root) + 1 :]):
            steering.add(path)
            mentioned.extend(word for word in (b"ANY", b"approx") if word in text and word not in mentioned)

    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        for path in (f"{folder}/{name}" for name in names if name.endswith(".py")):
            if path[len(root) + 1 :] not in by_candidate and os.path.isfile(path):
                add(path)

    def has_changed(path: str, text: bytes) -> bool:
        return path in digests and blake2b(text, digest_size=16).digest() != digests[path]

    def codes_of(path: str) -> frozenset[Any]:
        """All code of a file's text; none where the text is not what it was."""
        if path not in compiled:
            try:
                with open(path, "rb") as file:
                    text = file.read()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = [] if has_changed(path, text) else [compile(text, path, "exec", dont_inherit=True)]
            except Exception:  # noqa: BLE001 - no file, or none of Python's
                found = []
            compiled[path] = frozenset(_with_inner(found))
        return compiled[path]

    def note(code: CodeType) -> None:
        noted.update((id(one), one) for one in _with_inner([code]))

    def is_library(code: CodeType) -> bool:
        return code.co_filename.startswith(libraries) and (id(code) in noted or code in codes_of(code.co_filename))

    def is_genuine(code: CodeType) -> bool:
        return id(code) in noted or is_library(code) or (code.co_filename in digests and code in codes_of(code.co_filename))

    return {
        "is_steering": lambda path: path in steering,
        "is_others": lambda path: path in digests or path.startswith(libraries),
        "has_changed": has_changed,
        "is_library": is_library,
        "is_genuine": is_genuine,
        "add": add,
        "note": note,
        "mentions": lambda word: word in mentioned,
    }


def _with_inner(codes: list[Any]) -> list[Any]:
    for code in codes:
        codes.extend(inner for inner in code.co_consts if type(inner) is _code_kind)
    return codes


def have_loaded(
    rewrite: Any,
    texts: dict[str, Callable[..., Any]],
    compare: dict[str, Callable[..., Any]],
    loaded: Callable[[Any, list[tuple[int, str]]], None],
    is_test: Callable[[str], bool],
    accuse: Callable[[str], None],
) -> None:
    """Have pytest's loader take the tests' text only as it was, with their comparisons instrumented, and no compiled file.

    Attacks: a test file written anew by the project while another one is imported, a forged file of compiled tests.

    Args:
        rewrite: the module `_pytest.assertion.rewrite`.
        compare: functions by the constants that stand for them (see `comparing`).
        is_test: whether a path is of the files that pytest is given.
        loaded: told of each module of the tests, and of what it imports, once its own text has run.
    """
    inner_asserts, inner_test, hook = rewrite.rewrite_asserts, rewrite._rewrite_test, rewrite.AssertionRewritingHook
    inner_exec, is_steering, has_changed = hook.exec_module, texts["is_steering"], texts["has_changed"]
    source: Any = SourceFileLoader
    inner_code, inner_source = source.get_code, source.exec_module
    is_others, note, changed = texts["is_others"], texts["note"], dict[str, bool]()
    imports: dict[str, list[tuple[int, str]]] = {}

    def rewrite_asserts(tree: Any, *given: Any, **named: Any) -> None:
        values = (*given, *named.values())
        path = next((value for value in values if type(value) is str), "")
        if not is_steering(path):
            inner_asserts(tree, *given, **named)
            changed[path] = has_changed(path, source_of(path, values))
            return
        if has_changed(path, source_of(path, values)):
            accuse(f"changed the tests in {os.path.basename(path)} before they were read")
        imports[path] = imports_of(tree)
        inner_asserts(tree, *given, **named)
        look_at_comparisons(tree)

    def look_at_comparisons(tree: Any) -> None:
        with_own = own_finder()
        tree.body = [instrumented(with_own(statement), is_projects=True) for statement in tree.body]

    def get_code(self: Any, name: str) -> Any:
        """Compile a file that steers tests for Python's own loader, to which pytest leaves helpers, and all where it imports by
        files' places. Comparisons of the tests alone are instrumented."""
        if not is_test(self.path) and not is_steering(self.path):
            return inner_code(self, name)
        with open(self.path, "rb") as file:
            text = file.read()
        if has_changed(self.path, text):
            accuse(f"changed the tests in {os.path.basename(self.path)} before they were read")
        if not is_test(self.path):
            code = compile(text, self.path, "exec", dont_inherit=True)
            note(code)
            return code
        tree: Any = compile(text, self.path, "exec", ast.PyCF_ONLY_AST, True)
        imports[self.path] = imports_of(tree)
        look_at_comparisons(tree)
        code = bound(compile(tree, self.path, "exec", dont_inherit=True), compare)
        note(code)
        return code

    def exec_source(self: Any, module: Any) -> None:
        inner_source(self, module)
        if is_test(self.path):
            loaded(module, imports.get(self.path, []))

    def source_of(path: str, values: tuple[Any, ...]) -> bytes:
        source = next((value for value in values if type(value) is bytes), None)
        if source is None:  # an older pytest's, which does not hand it on
            with open(path, "rb") as file:
                source = file.read()
        return source

    def rewrite_test(*given: Any, **named: Any) -> tuple[Any, Any]:
        stamp, code = inner_test(*given, **named)
        if is_steering(code.co_filename):
            code = bound(code, compare)
        if is_others(code.co_filename) and not changed.get(code.co_filename):
            note(code)
        return stamp, code

    def exec_module(self: Any, module: Any) -> None:
        inner_exec(self, module)
        file = getattr(module, "__file__", None) or ""
        if is_steering(file):
            loaded(module, imports.get(file, []))

    rewrite.rewrite_asserts, rewrite._rewrite_test, rewrite._read_pyc = rewrite_asserts, rewrite_test, lambda *_, **__: None
    rewrite._write_pyc = lambda *_, **__: True
    hook.exec_module, source.get_code, source.exec_module = exec_module, get_code, exec_source
    _hold_others(texts, accuse)


def _hold_others(texts: dict[str, Callable[..., Any]], accuse: Callable[[str], None]) -> None:
    """Accuse where other code runs under the name of a file that steers tests. Nobody can remove an audit hook.

    Attacks: helpers of the tests written anew, a compiled file in their place, a function of pytest given other code.
    """
    busy, is_steering, is_genuine, is_library = [False], texts["is_steering"], texts["is_genuine"], texts["is_library"]

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if busy[0] or (event != "exec" and event != "object.__setattr__"):
            return
        busy[0] = True
        try:
            if event == "exec":
                code = arguments[0]
                is_module = type(code) is _code_kind and code.co_name == "<module>" and is_steering(code.co_filename)
                if is_module and not is_genuine(code):
                    accuse(f"runs other code in the place of {os.path.basename(code.co_filename)}")
            elif arguments[1] == "__code__" and type(arguments[0]) is _function_kind:
                code = arguments[0].__code__
                if is_steering(code.co_filename) or (_is_suite(code.co_filename) and is_library(code)):
                    accuse("rewrites a function of its tests, of pytest or of unittest")
        finally:
            busy[0] = False

    sys.addaudithook(hear)


def _is_suite(file: str) -> bool:
    return any(f"/{name}/" in file for name in ("pytest", "_pytest", "pluggy", "unittest"))
