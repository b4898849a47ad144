"""Remembers the functions and classes that decide tests, and accuses a candidate that replaced one.

No class is defined here, and the candidate can reach nothing of this file: it would patch it.
"""

from __future__ import annotations

import builtins
import os
import sys

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CellType, ModuleType
    from typing import Any

_SUITES = ("unittest", "pytest", "_pytest", "pluggy")
"""Packages that are looked at with all their modules and classes."""
_TOOLS = ("contextlib", "re", "collections", "inspect")
"""Modules of others that unittest judges with. Attacks: a patch that swallows failures, a cleanup not awaited."""
_HOOKS = {
    "logging": ("_logRecordFactory", "_loggerClass"),
    "warnings": ("showwarning", "formatwarning", "warn"),
    "sys": ("excepthook", "displayhook", "unraisablehook"),
}
"""Functions that programs may replace, as the modules intend or by habit. No test asks them for its verdict."""
_MAY_BE_REPLACED = {"print", "input", "open", "exit", "quit", "help", "copyright", "credits", "license", "_"}
_MAY_NOT_BE_SHADOWED = ("isinstance", "issubclass", "callable", "hasattr", "getattr", "AssertionError")
JUDGING = (
    ("inspect", "linecache", "tokenize", "ast", "dis", "pycodestyle", "mccabe", "radon"),
    ("unittest", "doctest"),
)
"""Modules that judge style, and modules that hold assertions. The candidate gets its own copies of a group that its tests use,
and of no other: two copies of `inspect` misread each other's signatures. Attack: unittest patched before it is imported."""
_LOOKS, _CHANCE = 1000, 16
"""So many calls in the tests' text look at all assertions; of 256 later calls, so many do."""
_PLAIN = (int, float, str, bytes, bool, type(None), list, tuple, dict, set, frozenset)
_function_kind, _module_kind, _HEAP_TYPE = type(lambda: None), type(sys), 1 << 9
_class_dict, _class_name = type.__dict__["__dict__"].__get__, type.__dict__["__name__"].__get__
_mro, _class_flags = type.__dict__["__mro__"].__get__, type.__dict__["__flags__"].__get__


def guard(
    accuse: Callable[[str], None],
    imports: tuple[str, ...],
    tests: str,
    names: dict[str, Any],
    *,
    mocks: bool,
    set_aside: bool = True,
) -> dict[str, Any]:
    """Import the tests' modules, remember all that decides a test, and give the modules and the checks, functions by name.

    Args:
        accuse: told what was changed; does not return.
        imports: modules that the tests name; those that cannot be imported are left out.
        names: the candidate's module.
        set_aside: give the candidate copies of its own of modules that judge.
        mocks: the tests patch modules themselves, and may leave a mock behind.
    """
    modules = imported(imports)
    used = {name.partition(".")[0] for name in modules}
    judging = tuple(name for group in JUDGING if set_aside and not used.isdisjoint(group) for name in group)
    own_copies = without(judging)
    builtin = dict(builtins.__dict__)
    standard = (builtins, {name: value for name, value in builtin.items() if name not in _MAY_BE_REPLACED}, None, ())
    contents = entries_of(modules)
    if not used.isdisjoint(("unittest", "doctest")):
        contents += entries_of(imported(tuple(name for name in _TOOLS if name not in judging)), are_tools=True)
    cells = cells_of(contents)
    loaded = sys.modules
    kept, of_tests = [], list[type]()
    mentioned, by_name, assigned = set[str](), set[str](), set[str]()
    cases: list[Any] = []
    n_looks, urandom = 0, os.urandom

    def restore_imports() -> None:
        """Put the judging modules of before back. Where there was none, the tests load it afresh."""
        for name in list(loaded):
            if name.partition(".")[0] in judging:
                kept.append(loaded.pop(name))  # kept: to tear a module down costs more than all else here
        loaded.update(own_copies)

    def verify() -> None:
        """Accuse of a built-in replaced or shadowed. Attacks: isinstance, AssertionError, built-ins of the module."""
        verify_entries([standard], False)
        if names.get("__builtins__") is not builtins:
            accuse("replaced __builtins__")
        for name in _MAY_NOT_BE_SHADOWED:
            if name in names and names[name] is not builtin[name]:
                accuse(f"replaced {name}")

    def verify_entries(entries: list[Any], during_tests: bool) -> None:
        for holder, before, names, kinds in entries:
            now = _class_dict(holder) if kinds else holder.__dict__
            if kinds and _mro(holder) != kinds:
                accuse(f"gave {title(holder)} other bases")
            if kinds and names is None:
                changed = [name for name in mentioned if now.get(name) is not before.get(name)]
            else:
                changed = [name for name, value in before.items() if now.get(name) is not value]
            if names is not None and len(now) != len(names):
                changed += [name for name in now if name not in names]
            for name in changed:
                is_new, value = name not in before, now.get(name)
                if is_new and not hides(name, kinds):
                    continue
                is_setting = type(value) in _PLAIN and (is_new or (kinds and names is None))  # unittest's own, or a library's
                if not (is_setting or (during_tests and is_by_tests(holder, name, value, names is None))):
                    accuse(f"replaced {title(holder)}.{name}")

    def hides(name: str, kinds: tuple[type, ...]) -> bool:
        return any(name in _class_dict(kind) for kind in kinds[1:]) if kinds else name in builtin

    def verify_modules(during_tests: bool) -> None:
        """Accuse of a replaced function or class. Attacks: library's helper replaced, assertions switched off."""
        verify_entries(contents, during_tests)
        for cell, value in cells:
            if cell.cell_contents is not value:
                accuse("replaced what a function of the tests calls")

    def verify_cases() -> None:
        """Look at the tests' cases while a test runs. Attack: a method replaced by the function under test, and put back.

        It costs up to 0.1 ms. After many calls only some look, by chance, so that long loops in tests stay fast.
        """
        nonlocal n_looks
        n_looks += 1
        if n_looks <= _LOOKS or urandom(1)[0] < _CHANCE:
            verify_entries(cases, True)

    def title(holder: Any) -> str:
        return holder.__name__ if type(holder) is _module_kind else _class_name(holder)

    def is_by_tests(holder: Any, name: str, value: Any, is_librarys: bool) -> bool:
        if type(value) is _function_kind:
            return name in assigned and value.__code__.co_filename == tests
        # attack: a tool of assertions that is a mock
        is_mock = is_librarys and mocks and type(value).__module__ == "unittest.mock"
        return name in by_name and (is_mock or holder in of_tests)

    def add_names(read: set[str], given: set[str], stored: set[str]) -> None:
        """Accept what the tests assign or patch: attributes they read, names they may give by, others' attributes they assign."""
        mentioned.update(read)
        by_name.update(given)
        assigned.update(stored)

    def add_classes(kinds: list[type]) -> None:
        """Watch the tests' own classes, too."""
        new = [entry_of(kind) for kind in kinds if kind not in of_tests]
        of_tests.extend(kind for kind in kinds if kind not in of_tests)
        contents.extend(new)
        cells.extend(cells_of(new))
        cases[:] = [entry for entry in contents if entry[3] and (entry[0] in of_tests or _class_name(entry[0]) == "TestCase")]

    checks = (restore_imports, verify, verify_modules, verify_cases, add_names, add_classes)
    return {"accuse": accuse, "modules": modules, **{check.__name__: check for check in checks}}


def entry_of(kind: type) -> tuple[Any, dict[str, Any], frozenset[str] | None, tuple[type, ...]]:
    """Note a class: its values that may not change, all its names, and its bases. Modules have none."""
    held = dict(_class_dict(kind))
    return kind, held, frozenset(held), _mro(kind)


def imported(names: tuple[str, ...]) -> dict[str, ModuleType]:
    """Import these modules, as far as that works, and give them with all loaded modules of their suites."""
    found: dict[str, ModuleType] = {}
    for name in names:
        try:
            __import__(name)
            found[name] = sys.modules[name]
        except BaseException:  # noqa: BLE001 - it will fail again in the tests, which is theirs to show
            continue
    for name in list(sys.modules):
        package = name.partition(".")[0]
        if package in _SUITES and package in found:
            found[name] = sys.modules[name]
    return found


def without(packages: tuple[str, ...]) -> dict[str, ModuleType]:
    """Take packages out of sight: the candidate loads its own copies."""
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in packages}
    for name in kept:
        del sys.modules[name]
    return kept


def entries_of(modules: dict[str, ModuleType], are_tools: bool = False) -> list[Any]:
    """List the functions and classes of each module, and a suite's classes with all that is in them.

    Of other classes and their bases only names that the tests mention count. Attack: a method that tests call, replaced.

    Args:
        are_tools: their classes count like a suite's.
    """
    found: list[Any] = []
    parts: dict[type, Any] = {}
    for name, module in modules.items():
        is_suite, free = name.partition(".")[0] in _SUITES, _HOOKS.get(name, ())
        held = {key: value for key, value in vars(module).items() if callable(value) and key not in free}
        found.append((module, held, frozenset(vars(module)) if is_suite else None, ()))
        kinds = [value for value in held.values() if isinstance(value, type)]
        if is_suite or are_tools:
            found.extend(entry_of(kind) for kind in kinds if kind.__module__.startswith((name, *_SUITES)))
        else:
            heirs = {base: None for kind in kinds for base in _mro(kind) if _class_flags(base) & _HEAP_TYPE}
            parts.update((kind, (kind, dict(_class_dict(kind)), None, _mro(kind))) for kind in heirs if kind not in parts)
    return [*found, *parts.values()]


def cells_of(contents: list[Any]) -> list[tuple[CellType, Any]]:
    """List the variables that methods share with the functions around them. Attack: one exchanged in place."""
    found: list[tuple[CellType, Any]] = []
    for _, held, names, kinds in contents:
        if kinds and names is not None:
            for value in held.values():
                for cell in (value.__closure__ or ()) if type(value) is _function_kind else ():
                    try:
                        found.append((cell, cell.cell_contents))
                    except ValueError:  # nothing in it yet
                        continue
    return found
