"""Remembers the functions of pytest, pluggy and unittest, and of the tests, and accuses a project that replaced one.

What these libraries replace of each other they may. The project's own code may not: neither a function, nor a class, nor a
method, nor one that hides another. Trusted, standard library only; no class is defined here.
"""

from __future__ import annotations

import builtins
import os
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
_class_dict = type.__dict__["__dict__"].__get__


def remembering(
    accuse: Callable[[str], None], trusted: tuple[str, ...]
) -> tuple[Callable[[Iterable[Any]], None], Callable[[], None]]:
    """Make a function that remembers modules, and one that looks whether all of them are as they were.

    Args:
        accuse: told what was changed; does not return.
        trusted: folders whose code is not the candidate's.
    """
    folders = (*(f"{folder}/" for folder in trusted), "<frozen")
    known: dict[int, tuple[Any, dict[str, Any], tuple[type, ...]]] = {}
    names_of = {name: value for name, value in vars(builtins).items() if name not in _MAY_BE_REPLACED}

    def remember(modules: Iterable[Any]) -> None:
        for module in modules:
            note(module, vars(module), ())
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == module.__name__:
                    note(value, _class_dict(value), value.__mro__)

    def note(holder: Any, held: Any, bases: tuple[type, ...]) -> None:
        known[id(holder)] = (holder, {name: value for name, value in held.items() if decides(value)}, bases)

    def decides(value: Any) -> bool:
        return code_of(value) is not None or isinstance(value, (type, _module_kind, _builtin_kind))

    def code_of(value: Any) -> Any:
        """Give the code of a function, or of what wraps one in a class."""
        for name in ("__func__", "fget", "__wrapped__", "func"):
            if type(value) is not _function_kind and type(value).__module__ in ("builtins", "functools"):
                value = getattr(value, name, value)
        return value.__code__ if type(value) is _function_kind else None

    def is_trusted(value: Any) -> bool:
        code = code_of(value)
        if code is not None:
            return code.co_filename.startswith(folders)
        if isinstance(value, type):
            file = getattr(sys.modules.get(value.__module__), "__file__", None)
            return file is None or os.path.abspath(file).startswith(folders)
        return isinstance(value, (_module_kind, _builtin_kind)) or type(value).__module__.partition(".")[0] in SUITES

    def verify() -> None:
        now = vars(builtins)
        for name, value in names_of.items():
            if now.get(name) is not value:
                accuse(f"replaced the built-in {name}")
        for holder, before, bases in known.values():
            held = _class_dict(holder) if bases else vars(holder)
            if bases and holder.__mro__ != bases:
                accuse(f"gave {holder.__name__} other bases")
            for name, value in list(held.items()):
                if before.get(name) is not value and (name in before or decides(value)) and not is_trusted(value):
                    accuse(f"replaced {holder.__name__}.{name}")
            for name in before:
                if name not in held:
                    accuse(f"removed {holder.__name__}.{name}")

    return remember, verify


def equals_everything(changed: frozenset[str], root: str) -> str:
    """Name a class of a changed file whose objects say that they equal whatever they are compared with; nothing without one."""
    files = {f"{root}/{name}" for name in changed}
    strangers = (object(), os.urandom(8), os.urandom(8).hex(), int.from_bytes(os.urandom(8), "big"), [os.urandom(8)])
    left: list[type] = [object]
    seen: set[type] = set()
    while left:
        kind = left.pop()
        if kind in seen:
            continue
        seen.add(kind)
        left.extend(type.__subclasses__(kind))
        for name, wanted in (("__eq__", True), ("__ne__", False)):
            own = _class_dict(kind).get(name)
            if type(own) is not _function_kind or own.__code__.co_filename not in files:
                continue
            if _answers_alike(kind, own, wanted, strangers):
                return kind.__name__
    return ""


def _answers_alike(kind: type, compare: Any, wanted: bool, strangers: tuple[object, ...]) -> bool:
    for base in kind.__mro__:
        try:
            probe = base.__new__(kind)  # pyright: ignore[reportCallIssue]  (or it raises)
            break
        except Exception:  # noqa: BLE001 - a class of the project, which may raise what it likes
            continue
    else:
        return False
    try:
        return all(compare(probe, other) is wanted for other in strangers)
    except Exception:  # noqa: BLE001 - it needs what only its own objects have
        return False


def suite_modules() -> list[Any]:
    """List the loaded modules of the suites."""
    return [module for name, module in list(sys.modules.items()) if module and name.partition(".")[0] in SUITES]


def forbid_rewriting(accuse: Callable[[str], None], folders: tuple[str, ...]) -> None:
    """Accuse whoever gives a function of the suites other code. Nobody can remove an audit hook."""
    busy = [False]

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "object.__setattr__" or busy[0] or arguments[1] != "__code__" or type(arguments[0]) is not _function_kind:
            return
        busy[0] = True
        try:
            if arguments[0].__code__.co_filename.startswith(folders):
                accuse("rewrites a function of pytest or unittest")
        finally:
            busy[0] = False

    sys.addaudithook(hear)
