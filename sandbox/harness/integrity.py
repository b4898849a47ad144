"""What decides tests: as it was before the candidate ran, and whether it still is.

There is no class here, and nothing of it is reachable from what the candidate can reach: it could be patched otherwise.
"""

from __future__ import annotations

import builtins
import os
import sys

from library_values import is_librarys

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CellType, FunctionType, ModuleType
    from typing import Any

_SUITES = ("unittest", "pytest", "_pytest", "pluggy")
"""Packages that are looked at with all their modules and classes."""
_TOOLS = {
    **{"contextlib": None, "re": None, "collections": ("Counter",), "warnings": ("catch_warnings",)},
    "inspect": ("iscoroutinefunction", "isawaitable", "iscoroutine", "signature", "unwrap"),
}
"""What unittest judges with that is not its own: these names of the module, or all."""
_HOOKS = {
    "logging": ("_logRecordFactory", "_loggerClass"),
    "warnings": ("showwarning", "formatwarning", "warn"),
    "sys": ("excepthook", "displayhook", "unraisablehook"),
}
"""What modules hold for programs to replace, by functions of theirs or by habit; no test asks it for its verdict."""
_MAY_BE_REPLACED = {"print", "input", "open", "exit", "quit", "help", "copyright", "credits", "license", "_"}
_MAY_NOT_BE_SHADOWED = ("isinstance", "issubclass", "callable", "hasattr", "getattr", "AssertionError")
_JUDGING = (
    ("inspect", "linecache", "tokenize", "ast", "dis", "pycodestyle", "mccabe", "radon"),
    ("unittest", "doctest"),
)
"""Modules that judge style, and those that hold assertions. The candidate gets copies of its own of a group that its tests use,
and of no other: libraries that know two copies of `inspect` do not understand each other's signatures."""
_LOOKS, _CHANCE = 1000, 16
"""Calls in the tests' text at which all assertions are looked at; and of 256 of those after them, at how many."""
_PLAIN = (int, float, str, bytes, bool, type(None), list, tuple, dict, set, frozenset)
_function_kind, _module_kind, _HEAP_TYPE = type(lambda: None), type(sys), 1 << 9
_class_dict, _class_name = type.__dict__["__dict__"].__get__, type.__dict__["__name__"].__get__
_mro, _class_flags = type.__dict__["__mro__"].__get__, type.__dict__["__flags__"].__get__


def guard(
    accuse: Callable[[str], None],
    imports: tuple[str, ...],
    trusted: tuple[str, ...],
    tests: str,
    names: dict[str, Any],
    *,
    mocks: bool,
    set_aside: bool = True,
) -> dict[str, Callable[..., Any]]:
    """Import what the tests will import, remember what matters, and give the checks as functions by name.

    Args:
        accuse: told what was changed; does not return.
        imports: modules that the tests name; those that cannot be imported are left out.
        trusted: folders whose code is not the candidate's.
        names: the candidate's module.
        set_aside: give the candidate copies of its own of modules that judge.
        mocks: the tests patch modules themselves, and may leave a mock behind.
    """
    folders = (*(f"{folder}/" for folder in trusted), "<frozen")
    modules = imported(imports)
    used = {name.partition(".")[0] for name in modules}
    judging = tuple(name for group in _JUDGING if set_aside and not used.isdisjoint(group) for name in group)
    own_copies = without(judging)
    standard = dict(builtins.__dict__)
    contents, judged = contents_of(modules), judged_classes(modules)
    if not used.isdisjoint(("unittest", "doctest")):
        contents += contents_of(imported(tuple(name for name in _TOOLS if name not in judging)), _TOOLS)
    cells = cells_of(contents)
    loaded = sys.modules
    function_kind, get, kept = _function_kind, dict.get, []
    module_kind, of_tests = _module_kind, list[type]()
    mentioned, by_name, assigned = set[str](), set[str](), set[str]()
    suites: list[Any] = []
    cases: list[Any] = []
    n_looks, urandom = 0, os.urandom

    def restore_imports() -> None:
        """Judging modules are those of before; where there are none, they are loaded afresh."""
        for name in list(loaded):
            if name.partition(".")[0] in judging:
                kept.append(loaded.pop(name))  # kept: to tear a module down costs more than all else here
        loaded.update(own_copies)

    def verify() -> None:
        """Accuses where the candidate changed what decides a test."""
        now = builtins.__dict__
        changed = [n for n, v in standard.items() if get(now, n) is not v and n not in _MAY_BE_REPLACED]
        now.update(standard)
        if changed:
            accuse(f"replaced the built-in {sorted(changed)[0]}")
        if names.get("__builtins__") is not builtins:
            accuse("replaced __builtins__")
        for name in _MAY_NOT_BE_SHADOWED:
            if name in names and names[name] is not standard[name]:
                accuse(f"replaced {name}")

    def verify_contents(entries: list[Any], during_tests: bool) -> None:
        for holder, before, names, kinds in entries:
            is_module = type(holder) is module_kind
            now = holder.__dict__ if is_module else _class_dict(holder)
            for name, value in before.items():
                found = now.get(name)
                if found is not value and not is_harmless(holder, name, found, during_tests):
                    accuse(f"replaced {title(holder)}.{name}")
            if not is_module and _mro(holder) != kinds:
                accuse(f"gave {title(holder)} other bases")
            if len(now) != len(names) and (not is_module or is_suite(holder)):
                for name in [name for name in now if name not in names]:
                    hides = name in standard if is_module else any(name in _class_dict(kind) for kind in kinds[1:])
                    if hides and type(now[name]) not in _PLAIN and not is_harmless(holder, name, now[name], during_tests):
                        accuse(f"replaced {title(holder)}.{name}")

    def verify_modules(during_tests: bool) -> None:
        """Accuses where a function or class of a module that the tests use is another one now."""
        verify_contents(contents, during_tests)
        for cell, value in cells:
            if cell.cell_contents is not value:
                accuse("replaced what a function of the tests calls")
        for kind, before in judged:
            now = _class_dict(kind)
            for name in mentioned:
                found = now.get(name)
                if found is not before.get(name) and not is_librarys(found, is_trusted):
                    hides = name in before or any(name in _class_dict(base) for base in _mro(kind)[1:])
                    if hides and not is_harmless(kind, name, found, during_tests):
                        accuse(f"replaced {title(kind)}.{name}")

    def verify_suites(all_of_them: bool) -> None:
        """As `verify_modules`, while a test runs: of the classes that assert, or only of the tests' cases.

        It costs up to 0.1 ms: after many times only some are chosen, by chance, so that long loops in tests stay fast.
        """
        nonlocal n_looks
        n_looks += 1
        if n_looks > _LOOKS and urandom(1)[0] >= _CHANCE:
            return
        for entry in suites if all_of_them else cases:
            now = _class_dict(entry[0])
            if len(now) != len(entry[1]) or any(now.get(name) is not value for name, value in entry[1].items()):
                verify_contents([entry], True)

    def found(module: str, name: str) -> Any:
        """What one of the tests' modules held before the candidate ran; None if there is no such thing."""
        return vars(modules[module]).get(name) if module in modules else None

    def title(holder: Any) -> str:
        return holder.__name__ if type(holder) is module_kind else _class_name(holder)

    def is_suite(holder: Any) -> bool:
        name = holder.__name__ if type(holder) is module_kind else _class_dict(holder).get("__module__", "")
        return name.partition(".")[0] in _SUITES

    def is_trusted(function: FunctionType) -> bool:
        return function.__code__.co_filename.startswith(folders) and function.__globals__ is not names

    def is_harmless(holder: Any, name: str, value: Any, during_tests: bool) -> bool:
        if during_tests and name in by_name:
            if mocks and type(value).__module__ == "unittest.mock" and not is_suite(holder):
                return True
            if holder in of_tests and type(value) is not function_kind:
                return True
        if during_tests and name in assigned and type(value) is function_kind:
            return value.__code__.co_filename == tests
        return False

    def add_names(read: set[str], given: set[str], stored: set[str]) -> None:
        """What the tests themselves put somewhere is no finding.

        Args:
            read: attributes that they read.
            given: names that they may give things by, in a patch say.
            stored: attributes of others than `self` that they assign.
        """
        mentioned.update(read)
        by_name.update(given)
        assigned.update(stored)

    def add_classes(kinds: list[type]) -> None:
        """Watch these classes too (the tests' own)."""
        new = [entry_of(kind, dict(_class_dict(kind))) for kind in kinds if kind not in of_tests]
        of_tests.extend(kind for kind in kinds if kind not in of_tests)
        contents.extend(new)
        cells.extend(cells_of(new))
        suites[:] = [entry for entry in contents if type(entry[0]) is not module_kind]
        cases[:] = [entry for entry in suites if entry[0] in of_tests or _class_name(entry[0]) == "TestCase"]

    return {
        "accuse": accuse,
        "found": found,
        "restore_imports": restore_imports,
        "verify": verify,
        "verify_modules": verify_modules,
        "verify_suites": verify_suites,
        "add_names": add_names,
        "add_classes": add_classes,
    }


def entry_of(holder: Any, held: dict[str, Any]) -> tuple[Any, dict[str, Any], frozenset[str], tuple[type, ...]]:
    """A module or class, what of it may not change, all names that it has, and a class's bases."""
    if type(holder) is _module_kind:
        return holder, held, frozenset(vars(holder)), ()
    return holder, held, frozenset(held), _mro(holder)


def imported(names: tuple[str, ...]) -> dict[str, ModuleType]:
    """These modules, those left out that cannot be imported, and all of the suites that they belong to."""
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
    """Take them out of sight: the candidate loads its own."""
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in packages}
    for name in kept:
        del sys.modules[name]
    return kept


def contents_of(modules: dict[str, ModuleType], tools: dict[str, Any] | None = None) -> list[Any]:
    """Functions and classes of each module, and what its classes hold where they are a suite's.

    Args:
        tools: names that count, by module, where not all do; their classes count like a suite's.
    """
    found: list[Any] = []
    for name, module in modules.items():
        free, chosen = _HOOKS.get(name, ()), (tools or {}).get(name)
        called = {key: value for key, value in vars(module).items() if callable(value)}
        held = {key: value for key, value in called.items() if (key not in free if chosen is None else key in chosen)}
        found.append(entry_of(module, held))
        if tools is not None or name.partition(".")[0] in _SUITES:
            kinds = [
                value for value in held.values() if isinstance(value, type) and value.__module__.startswith((name, *_SUITES))
            ]
            found.extend(entry_of(kind, dict(_class_dict(kind))) for kind in kinds)
    return found


def judged_classes(modules: dict[str, ModuleType]) -> list[tuple[type, dict[str, Any]]]:
    """Classes of other modules, with their bases, and what they hold: what tests call on their objects may not be replaced."""
    found: dict[type, dict[str, Any]] = {}
    for name, module in modules.items():
        if name.partition(".")[0] not in _SUITES:
            for value in vars(module).values():
                for kind in _mro(value) if isinstance(value, type) else ():
                    if kind not in found and _class_flags(kind) & _HEAP_TYPE:
                        found[kind] = dict(_class_dict(kind))
    return list(found.items())


def cells_of(contents: list[Any]) -> list[tuple[CellType, Any]]:
    """What the functions of classes refer to outside: it can be exchanged where they stand."""
    found: list[tuple[CellType, Any]] = []
    for holder, held, _, _ in contents:
        if type(holder) is not _module_kind:
            for value in held.values():
                for cell in (value.__closure__ or ()) if type(value) is _function_kind else ():
                    try:
                        found.append((cell, cell.cell_contents))
                    except ValueError:  # nothing in it yet
                        continue
    return found


def verify_source(accuse: Callable[[str], None], path: str, code: bytes, _open: Callable[..., Any] = open) -> None:
    """Source text is judged too (style, complexity): it must still be the candidate's own."""
    try:
        with _open(path, "rb") as file:
            same = file.read() == code
    except OSError:
        same = False
    if not same:
        accuse("changed its own source file")


def install_packages(folders: str) -> None:
    """The work of the `site` module without reading .pth files, which run code at each start."""
    import site

    there = [folder for folder in folders.split("\n") if os.path.isdir(folder)]
    if not there:
        site.main()
        return
    sys.path.extend(there)
    site.setquit()
    site.setcopyright()
    site.sethelper()
