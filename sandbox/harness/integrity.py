"""What decides tests: as it was before the candidate ran, and whether it still is.

There is no class here, and nothing of it is reachable from what the candidate can reach: it could be patched otherwise.
"""

from __future__ import annotations

import builtins
import os
import sys

from library_values import is_librarys
from module_contents import SUITES, cells_of, contents_of, entry_of, imported, judged_classes, tools_of_unittest, without

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

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
_function_kind = type(lambda: None)
_class_dict, _class_name = type.__dict__["__dict__"].__get__, type.__dict__["__name__"].__get__
_mro = type.__dict__["__mro__"].__get__
_is_frozen_module = "<frozen"


def guard(
    accuse: Callable[[str], None],
    imports: tuple[str, ...],
    trusted: tuple[str, ...],
    tests: str,
    *,
    mocks: bool,
    set_aside: bool = True,
) -> dict[str, Callable[..., Any]]:
    """Import what the tests will import, remember what matters, and give the checks as functions by name.

    Args:
        accuse: told what was changed; does not return.
        imports: modules that the tests name; those that cannot be imported are left out.
        trusted: folders whose code is not the candidate's.
        set_aside: give the candidate copies of its own of modules that judge.
        mocks: the tests patch modules themselves, and may leave a mock behind.
    """
    folders = (*(f"{folder}/" for folder in trusted), _is_frozen_module)
    modules = imported(imports)
    used = {name.partition(".")[0] for name in modules}
    judging = tuple(name for group in _JUDGING if set_aside and not used.isdisjoint(group) for name in group)
    own_copies = without(judging)
    standard = dict(builtins.__dict__)
    contents, judged = contents_of(modules), judged_classes(modules)
    if not used.isdisjoint(("unittest", "doctest")):
        contents += tools_of_unittest()
    cells = cells_of(contents)
    loaded = sys.modules
    function_kind, get, kept = _function_kind, dict.get, []
    module_kind, of_tests = type(sys), list[type]()
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

    def verify(names: dict[str, Any]) -> None:
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
        return name.partition(".")[0] in SUITES

    def is_trusted(file: str) -> bool:
        return file.startswith(folders)

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
