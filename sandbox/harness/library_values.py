"""Tells what a library's module or class holds of its own from what the candidate put there."""

from __future__ import annotations

import builtins
import sys
from _operator import is_

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, FunctionType
    from typing import Any

_function_kind, _builtin_kind, _module_kind = type(lambda: None), type(len), type(sys)
_namespace_kind = type(sys.implementation)
_class_dict, _mro = type.__dict__["__dict__"].__get__, type.__dict__["__mro__"].__get__
_PARTS = (_function_kind, staticmethod, classmethod, property, _builtin_kind)
_KEEP_NOTHING = (_module_kind, type, frozenset, str)
"""What a built-in function may be bound to: a list's `append` would keep what it is handed."""
_PLAIN = (_module_kind, type(None), bool, int, str, tuple, frozenset, dict)


def is_librarys(value: Any, is_trusted: Callable[[FunctionType], bool]) -> bool:
    """Whether a value is a library's own, as far as it holds code: a function, a class, an object of one.

    Args:
        is_trusted: whether a function is not the candidate's.
    """
    kind = type(value)
    if kind is _function_kind:
        return is_trusted(value)
    if kind in (staticmethod, classmethod):
        return is_librarys(value.__func__, is_trusted)
    if kind is property:
        return all(part is None or is_librarys(part, is_trusted) for part in (value.fget, value.fset, value.fdel))
    if kind is _builtin_kind:
        return value.__self__ is None or isinstance(value.__self__, _KEEP_NOTHING)
    if kind is _namespace_kind or kind.__name__ in ("partial", "method"):
        return False
    kinds = (*_mro(value), *_mro(kind)) if issubclass(kind, type) else _mro(kind)
    parts = (part for one in kinds for part in _class_dict(one).values() if type(part) in _PARTS)
    return all(is_librarys(part, is_trusted) for part in parts)


def names_of_library(is_trusted: Callable[[FunctionType], bool]) -> Callable[[FrameType], bool]:
    """A function that says whether all that a frame's code names is a library's: it could be handed what that looks at.

    It is asked often: what was found good once is only compared with what it was.
    """
    good: dict[int, tuple[Any, list[Any]]] = {}
    are_same, listed, name_of = map, all, id

    def names_it(frame: FrameType) -> bool:
        code, held = frame.f_code, frame.f_globals
        named = [(name, held.get(name)) for name in code.co_names if name in held]
        for _, value in named[:]:
            if type(value) is _module_kind:
                parts = ((part, value.__dict__.get(part)) for part in code.co_names)
                named += [(name, part) for name, part in parts if part is not None and _is_called(part)]
        seen: list[Any] = []
        for _, value in named:
            seen.append(value)
            if issubclass(type(value), type):
                for kind in _mro(value)[:-1]:
                    seen += _class_dict(kind).values()
        before = good.get(name_of(code))
        if before is not None and len(before[1]) == len(seen) and listed(are_same(is_, before[1], seen)):
            return True
        if not all(is_good(name, value) for name, value in named):
            return False
        good[name_of(code)] = (code, seen)
        return True

    def is_good(name: str, value: Any) -> bool:
        if type(value) in _PLAIN or is_librarys(value, is_trusted):
            return True
        # a class of named tuples is made of text; none of Python's own keeps a frame
        return name.lstrip("_")[:1].isupper() and issubclass(type(value), type) and tuple in _mro(value)

    return names_it


def _is_called(value: Any) -> bool:
    return issubclass(type(value), type) or any("__call__" in _class_dict(kind) for kind in _mro(type(value)))
