"""Tells whose objects they are that compare with too much: the tests' own and the project's may, the candidate's may not.

An object is known by the code that compares it, and that code by the file whose text compiles to it. The tests' own objects of a
lenient kind, `ANY` and `pytest.approx`, are known by their identity. No class is defined here.
"""

from __future__ import annotations

import builtins
import sys

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_DECIDING = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__sub__", "__rsub__")
_KNOWN_BY_IDENTITY = ("unittest", "_pytest", "pytest")
_GROUPS, _MOST = (list, tuple, set, frozenset, dict), 10_000
_HEAP_TYPE = 1 << 9
_function_kind, _module_kind = type(lambda: None), type(sys)
_slot_kinds = (type(int.__eq__), type(None))
_class_dict, _mro = type.__dict__["__dict__"].__get__, type.__dict__["__mro__"].__get__
_class_flags = type.__dict__["__flags__"].__get__


def excusing(
    texts: dict[str, Callable[..., Any]], holds_own: Callable[[Any], bool], anything: Any, loaded: list[Any]
) -> Callable[[Any, Any], bool]:
    """Make a function that tells whether two values, of which one equals too much, hold no object of the candidate's.

    Args:
        texts: see `texts_of`.
        holds_own: whether a value is, or holds, the tests' own `ANY` or `approx`.
        anything: `unittest.mock.ANY`, or None.
        loaded: modules of the tests that are instrumented.
    """
    is_library, is_genuine, is_steering = texts["is_library"], texts["is_genuine"], texts["is_steering"]

    def excused(left: Any, right: Any) -> bool:
        return not any(is_forged(value) for value in objects_in(left, right))

    def objects_in(*values: Any) -> list[Any]:
        found, unseen = [], [*values]
        while unseen and len(found) < _MOST:
            one = unseen.pop()
            if type(one) in _GROUPS:
                unseen.extend(one)
                unseen.extend(one.values() if type(one) is dict else ())
            else:
                found.append(one)
        return found

    def is_forged(value: Any) -> bool:
        if holds_own(value):
            return False
        kind = type(value)
        for name in _DECIDING:
            holder = next((one for one in _mro(kind) if name in _class_dict(one)), object)
            compare = _class_dict(holder).get(name)
            if not _class_flags(holder) & _HEAP_TYPE or type(compare) in _slot_kinds:
                continue
            if type(compare) is not _function_kind or not is_genuine(compare.__code__):
                return True
            if is_library(compare.__code__) and not is_named(value, kind):
                return True
        return False

    def is_named(value: Any, kind: type) -> bool:
        """Tell whether the tests name the library that a lenient object is of."""
        top = str(_class_dict(kind).get("__module__", "")).partition(".")[0]
        if top not in _KNOWN_BY_IDENTITY:
            return any(top in tops_of(module) for module in loaded)
        helpers = [module for module in list(sys.modules.values()) if is_steering(getattr(module, "__file__", None) or "")]
        others = [vars(module) for module in helpers if not any(module is one for one in loaded)]
        return value is anything and any(one is anything or one is mock() for held in others for one in held.values())

    def mock() -> Any:
        return sys.modules.get("unittest.mock", anything)

    def tops_of(module: Any) -> set[str]:
        values = list(vars(module).values())
        names = [value.__name__ if type(value) is _module_kind else getattr(value, "__module__", None) for value in values]
        return {name.partition(".")[0] for name in names if type(name) is str}

    return excused
