"""Tells what a library's module or class holds of its own from what the candidate put there."""

from __future__ import annotations

import builtins
import sys

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import Any

_function_kind, _builtin_kind, _module_kind = type(lambda: None), type(len), type(sys)
_namespace_kind = type(sys.implementation)
_class_dict, _mro = type.__dict__["__dict__"].__get__, type.__dict__["__mro__"].__get__
_KEEP_NOTHING = (_module_kind, type, frozenset, str)
"""What a built-in function may be bound to: a list's `append` would keep what it is handed."""
_CARRIERS = ("traceback", "linecache", "inspect", "format_helpers")
"""Names under which Python's own library holds modules that it hands frames to."""
_BY_NAME = ("logging/", "asyncio/")
"""Files of which only what the running code names is looked at: programs may replace other parts of them."""


def is_librarys(value: Any, is_trusted: Callable[[str], bool]) -> bool:
    """Whether a value is a library's own, as far as it holds code: a function, a class, an object of one.

    Args:
        is_trusted: whether a file's code is not the candidate's.
    """
    kind = type(value)
    if kind is _function_kind:
        return is_trusted(value.__code__.co_filename)
    if kind in (staticmethod, classmethod):
        return is_librarys(value.__func__, is_trusted)
    if kind is property:
        return all(part is None or is_librarys(part, is_trusted) for part in (value.fget, value.fset, value.fdel))
    if kind is _builtin_kind:
        return value.__self__ is None or isinstance(value.__self__, _KEEP_NOTHING)
    if issubclass(kind, type):
        return _is_librarys_class(value, is_trusted) and _is_librarys_class(kind, is_trusted)
    if kind is _namespace_kind or kind.__name__ in ("partial", "method"):
        return False
    return _is_librarys_class(kind, is_trusted)


def _is_librarys_class(kind: type, is_trusted: Callable[[str], bool]) -> bool:
    for one in _mro(kind):
        for value in _class_dict(one).values():
            if type(value) in (_function_kind, staticmethod, classmethod, property) and not is_librarys(value, is_trusted):
                return False
            if type(value) is _builtin_kind and not is_librarys(value, is_trusted):
                return False
    return True


def _is_called(value: Any) -> bool:
    return issubclass(type(value), type) or any("__call__" in _class_dict(kind) for kind in _mro(type(value)))


def _is_record(name: str, value: Any) -> bool:
    """Whether it is a class of named tuples, whose constructor is made of text; none of Python's own keeps a frame."""
    return name.lstrip("_")[:1].isupper() and issubclass(type(value), type) and tuple in _mro(value)


def whole_modules(is_trusted: Callable[[str], bool]) -> Callable[[FrameType, str], bool]:
    """A function that says whether what a frame of Python's own library may hand frames to is a library's.

    It is asked often: what was found good once is only compared with what it was.
    """
    good: dict[int, list[tuple[Mapping[str, Any], dict[str, Any]]]] = {}
    listed, same = dict, lambda held, before: len(held) == len(before) and all(held.get(n) is v for n, v in before.items())

    def is_whole(frame: FrameType, file: str) -> bool:
        names = frame.f_globals
        if file.startswith(_BY_NAME) and not file.endswith("format_helpers.py"):
            named = {name: names[name] for name in frame.f_code.co_names if name in names}
            return is_good({name: value for name, value in named.items() if name in _CARRIERS or _is_called(value)}, [])
        seen = good.get(id(names))
        if seen is not None and all(same(held, before) for held, before in seen):
            return True
        seen = []
        if not is_good(names, seen):
            return False
        good[id(names)] = seen
        return True

    def is_good(names: Mapping[str, Any], seen: list[tuple[Mapping[str, Any], dict[str, Any]]]) -> bool:
        before = listed(names)
        seen.append((names, before))
        for name, value in before.items():
            if name.startswith("__"):
                continue
            if name in _CARRIERS:
                if type(value) is not _module_kind:
                    return False
                if not any(held is value.__dict__ for held, _ in seen) and not is_good(value.__dict__, seen):
                    return False
            elif not (type(value) is _module_kind or is_librarys(value, is_trusted) or _is_record(name, value)):
                return False
            if issubclass(type(value), type):
                held = _class_dict(value)
                seen.append((held, listed(held)))
        return True

    return is_whole
