"""Tells what a library's module or class holds of its own from what the candidate put there."""

from __future__ import annotations

import builtins
import sys

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


def names_only_librarys(frame: FrameType, last: FrameType | None, is_trusted: Callable[[FunctionType], bool]) -> bool:
    """Whether all that the code of a frame names, and of those that called it up to the last, is a library's: it could be handed
    what they look at."""

    def is_good(name: str, value: Any) -> bool:
        if type(value) in _PLAIN or is_librarys(value, is_trusted):
            return True
        # a class of named tuples is made of text; none of Python's own keeps a frame
        return name.lstrip("_")[:1].isupper() and issubclass(type(value), type) and tuple in _mro(value)

    at: FrameType | None = frame
    while at is not None:
        names, held = at.f_code.co_names, at.f_globals
        for name in names:
            value = held.get(name)
            parts = [value.__dict__.get(part) for part in names] if type(value) is _module_kind else []
            if not is_good(name, value) or not all(is_good(name, part) for part in parts if _is_called(part)):
                return False
        at = None if at is last else at.f_back
    return True


def _is_called(value: Any) -> bool:
    return issubclass(type(value), type) or any("__call__" in _class_dict(kind) for kind in _mro(type(value)))
