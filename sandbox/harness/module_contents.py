"""What modules and classes hold before the candidate runs: those that tests use, and those that judge."""

from __future__ import annotations

import builtins
import sys

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from types import CellType, ModuleType
    from typing import Any

SUITES = ("unittest", "pytest", "_pytest", "pluggy")
"""Packages that are looked at with all their modules and classes."""
_TOOLS = {"contextlib": None, "re": None, "collections": ("Counter",), "warnings": ("catch_warnings",)}
"""What unittest judges with that is not its own: these names of the module, or all."""
_MAY_BE_REPLACED = {
    "logging": ("_logRecordFactory", "_loggerClass"),
    "warnings": ("showwarning", "formatwarning", "warn"),
    "sys": ("excepthook", "displayhook", "unraisablehook"),
    "threading": ("excepthook",),
    "ssl": ("_create_default_https_context",),
}
"""What modules hold for programs to replace, by functions of theirs or by habit; no test asks it for its verdict."""
_function_kind, _class_flags, _HEAP_TYPE = type(lambda: None), type.__dict__["__flags__"].__get__, 1 << 9
_class_dict, _mro = type.__dict__["__dict__"].__get__, type.__dict__["__mro__"].__get__


def entry_of(holder: Any, held: dict[str, Any]) -> tuple[Any, dict[str, Any], frozenset[str], tuple[type, ...]]:
    """A module or class, what of it may not change, all names that it has, and a class's bases."""
    if type(holder) is type(sys):
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
        if package in SUITES and package in found:
            found[name] = sys.modules[name]
    return found


def without(packages: tuple[str, ...]) -> dict[str, ModuleType]:
    """Take them out of sight: the candidate loads its own."""
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in packages}
    for name in kept:
        del sys.modules[name]
    return kept


def contents_of(modules: dict[str, ModuleType]) -> list[Any]:
    """Functions and classes of each module, and what its classes hold where they are a suite's."""
    found: list[Any] = []
    for name, module in modules.items():
        free = _MAY_BE_REPLACED.get(name, ())
        held = {key: value for key, value in vars(module).items() if callable(value) and key not in free}
        found.append(entry_of(module, held))
        if name.partition(".")[0] in SUITES:
            kinds = [value for value in held.values() if isinstance(value, type) and value.__module__.startswith(SUITES)]
            found.extend(entry_of(kind, dict(_class_dict(kind))) for kind in kinds)
    return found


def tools_of_unittest() -> list[Any]:
    """As `contents_of`, of what unittest judges with."""
    found: list[Any] = []
    for name, module in imported(tuple(_TOOLS)).items():
        chosen = _TOOLS[name]
        held = {key: value for key, value in vars(module).items() if callable(value) and (chosen is None or key in chosen)}
        found.append(entry_of(module, held))
        kinds = [value for value in held.values() if isinstance(value, type) and value.__module__ == name]
        found.extend(entry_of(kind, dict(_class_dict(kind))) for kind in kinds)
    return found


def judged_classes(modules: dict[str, ModuleType]) -> list[tuple[type, dict[str, Any]]]:
    """Classes of other modules, with their bases, and what they hold: what tests call on their objects may not be replaced."""
    found: dict[type, dict[str, Any]] = {}
    for name, module in modules.items():
        if name.partition(".")[0] not in SUITES:
            for value in vars(module).values():
                for kind in _mro(value) if isinstance(value, type) else ():
                    if kind not in found and _class_flags(kind) & _HEAP_TYPE:
                        found[kind] = dict(_class_dict(kind))
    return list(found.items())


def cells_of(contents: list[Any]) -> list[tuple[CellType, Any]]:
    """What the functions of classes refer to outside: it can be exchanged where they stand."""
    found: list[tuple[CellType, Any]] = []
    for holder, held, _, _ in contents:
        if type(holder) is not type(sys):
            for value in held.values():
                for cell in (value.__closure__ or ()) if type(value) is _function_kind else ():
                    try:
                        found.append((cell, cell.cell_contents))
                    except ValueError:  # nothing in it yet
                        continue
    return found
