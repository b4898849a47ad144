"""Remembers the functions and classes of pytest, pluggy and unittest, and of the tests, and accuses a project that replaced one.

All that was there before the project's code ran, or when a module of the tests had run to its end, is known by its identity: a
name has to go on meaning the same object, and a function the same code. A new name may come, unless it hides one that was there.
Trusted, standard library only; no class is defined here.
"""

from __future__ import annotations

import builtins
import sys

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

SUITES = ("pytest", "_pytest", "pluggy", "unittest")
_MAY_BE_REPLACED = {
    "print",
    "input",
    "open",
    "exit",
    "quit",
    "help",
    "copyright",
    "credits",
    "license",
    "_",
    "display",
    "__import__",
}
_function_kind, _module_kind = type(lambda: None), type(sys)
_builtin_kind: Any = type(len)
_class_dict, _mro = type.__dict__["__dict__"].__get__, type.__dict__["__mro__"].__get__


def remembering(
    accuse: Callable[[str], None], is_library: Callable[[Any], bool]
) -> tuple[Callable[[Iterable[Any]], None], Callable[[], None]]:
    """Make a function that remembers modules, and one that looks whether all of them are as they were.

    Args:
        accuse: told what was changed; does not return.
        is_library: whether a file of Python or of the environment compiles to this code.
    """
    import functools as f  # pytest has it loaded

    part_of: dict[type, str] = {staticmethod: "__func__", classmethod: "__func__", property: "fget"}
    part_of.update((kind, "func") for kind in (f.partial, f.partialmethod, f.cached_property, f.singledispatchmethod))
    part_of[type(f.lru_cache(decides_nothing))] = "__wrapped__"
    known: dict[int, tuple[Any, dict[str, tuple[Any, Any]], tuple[type, ...]]] = {}
    builtin = dict(vars(builtins))
    names_of = {name: value for name, value in builtin.items() if name not in _MAY_BE_REPLACED}

    def remember(modules: Iterable[Any]) -> None:
        for module in modules:
            if id(module) in known:
                continue
            parts = f"{module.__name__}."  # a package's modules are what was imported last
            held = {name: value for name, value in vars(module).items() if not is_part(value, parts)}
            note(module, held, ())
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == module.__name__:
                    note(value, _class_dict(value), _mro(value))

    def note(holder: Any, held: Any, bases: tuple[type, ...]) -> None:
        known[id(holder)] = (holder, {name: (value, code_of(value)) for name, value in held.items() if decides(value)}, bases)

    def is_part(value: Any, parts: str) -> bool:
        return isinstance(value, _module_kind) and value.__name__.startswith(parts)

    def decides(value: Any) -> bool:
        return code_of(value) is not None or isinstance(value, (type, _module_kind, _builtin_kind))

    def code_of(value: Any) -> Any:
        """Give the code of a function, or of what wraps one in a class."""
        while (kind := type(value)) is not _function_kind:
            if kind not in part_of:
                return None
            value = getattr(value, part_of[kind])
        return value.__code__

    def verify() -> None:
        now = vars(builtins)
        for name, value in names_of.items():
            if now.get(name) is not value:
                accuse(f"replaced the built-in {name}")
        for holder, before, bases in known.values():
            held = _class_dict(holder) if bases else vars(holder)
            if bases and _mro(holder) != bases:
                accuse(f"gave {holder.__name__} other bases")
            for name, value in list(held.items()):
                was = before.get(name)
                if was is not None:
                    code = value.__code__ if type(value) is _function_kind else code_of(value)
                    if was[0] is value and code is was[1]:
                        continue
                    if not (isinstance(was[0], _module_kind) and is_part(value, f"{holder.__name__}.")):
                        accuse(f"replaced {holder.__name__}.{name}")
                elif hides(name, bases) and decides(value) and not is_trusted(value):
                    accuse(f"replaced {holder.__name__}.{name}")
            for name in before:
                if name not in held:
                    accuse(f"removed {holder.__name__}.{name}")

    def hides(name: str, bases: tuple[type, ...]) -> bool:
        return any(name in _class_dict(kind) for kind in bases[1:]) if bases else name in builtin

    def is_trusted(value: Any) -> bool:
        code = code_of(value)
        return code is not None and is_library(code)

    return remember, verify


def decides_nothing() -> None:
    """Be a function to wrap."""


def suite_modules() -> list[Any]:
    """List the loaded modules of the suites."""
    return [module for name, module in list(sys.modules.items()) if module and name.partition(".")[0] in SUITES]
