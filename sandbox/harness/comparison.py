"""Notices objects for which any comparison holds.

The tests' own comparisons and differences, and the pairs that they give to unittest's assertions, go through functions of this
file. An operand of no plain built-in type is compared with other values, too, in an order nobody can foresee. An object that
equals 4711 and also 4712 is forged, and so is one that changes its mind.
"""

from __future__ import annotations

import _operator
import builtins
import os
from _ast import Eq, Gt, GtE, In, Is, IsNot, Lt, LtE, NotEq, NotIn
from _collections import deque  # pyright: ignore[reportMissingImports]  (a built-in module, which has no stub)
from itertools import islice

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SCALARS = (int, float, str, bool, type(None), bytes, complex, range, type, bytearray)
_GROUPS = (list, tuple, set, frozenset, dict)
_IN_ORDER = (list, tuple, deque)  # attack: ANY in a deque
_MOST_LEAVES, _MEMBERS = 20000, 20
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    **{Eq: _operator.eq, NotEq: _operator.ne, Is: _operator.is_, IsNot: _operator.is_not},
    **{Lt: _operator.lt, LtE: _operator.le, Gt: _operator.gt, GtE: _operator.ge},
    **{In: lambda a, b: a in b, NotIn: lambda a, b: a not in b},
}
_REVERSED = {Lt: _operator.gt, LtE: _operator.gt, Gt: _operator.lt, GtE: _operator.lt}
COMPARISONS = tuple(_OPERATIONS)
"""Their places are the codes that the instrumented tests name them by."""
ALMOST = len(COMPARISONS)
"""The code of two values whose difference is looked at."""
CHAIN, DIFFERENCE, PAIR, LOOKED, GIVEN, ENTERED, OWN = (f"parley {n} {os.urandom(8).hex()}" for n in range(7))

class_name = type.__dict__["__name__"].__get__
_class_dict, _mro, _function_kind = type.__dict__["__dict__"].__get__, type.__dict__["__mro__"].__get__, type(lambda: None)


def comparing(
    accuse: Callable[[str], None],
    here: Callable[[], None],
    entered: Callable[[bool], None],
    lenient: dict[str, Any],
    excused: Callable[[Any, Any], bool] = lambda left, right: False,
) -> dict[str, Callable[..., Any]]:
    """Make the functions that tests compare with, by the constants that stand for them in the instrumented tree.

    Args:
        accuse: told of a forged comparison; does not return to the candidate.
        here: accuses in a process that the tests were not given to, and of a replaced assertion.
        entered: see `start_watch`.
        lenient: see `leniency` in `instrumentation.py`.
        excused: whether two values that compare with too much are none of the candidate's.
    """
    operations = tuple(_OPERATIONS.values())
    (equal, unequal), urandom = map(COMPARISONS.index, (Eq, NotEq)), os.urandom
    contains, minus = _OPERATIONS[In], _operator.sub
    is_any, call_of, holds_own, shown, near = (lenient[name] for name in ("is_any", "call_of", "holds", "shown", "near"))
    is_known, anything = lenient["is_known"], lenient["anything"]

    def chain(codes: tuple[int, ...], *operands: Any) -> Any:
        __tracebackhide__ = True  # pytest shows the tests' own lines
        here()
        said: Any = None
        for i, code in enumerate(codes):
            said = compared(code, operands[i], operands[i + 1])
            if i + 1 < len(codes) and not said:
                break
        return said

    def compared(code: int, left: Any, right: Any) -> Any:
        __tracebackhide__ = True
        if _is_plain(left) and _is_plain(right):
            return operations[code](left, right)
        kind = COMPARISONS[code]
        before = kind not in (Eq, NotEq) or tried_whole(left, right)
        if kind in (In, NotIn):
            looked_at([left, right], 3)
            for altered in _alterations(left):  # attack: a group that holds whatever it is asked for first
                answer(altered, right, contains)
        said = operations[code](shown(left), shown(right))
        try:
            claims = bool(said) is (kind not in (NotEq, NotIn))
        except Exception:  # noqa: BLE001 - an array's answer is neither
            return said
        if claims and not before:
            accuse(f"objects of class {_forged(left, right)} claim to equal everything")
        elif claims and kind in _REVERSED:  # attack: a number that lies in order
            if answer(left, right, _REVERSED[kind], lambda also: also is True) and not excused(left, right):
                accuse(f"objects of class {_forged(left, right)} are less and greater at once")
        elif claims and kind in (In, NotIn):
            probe_membership(left, right)
        return said

    def tried_whole(left: Any, right: Any) -> bool:
        """Try the two, and their members side by side. Attacks: ANY at one place of a list, ANY deep in a tuple."""
        return tried(left, right) and all(tried(one, other, False) for one, other in _side_by_side(left, right))

    def tried(left: Any, right: Any, is_whole: bool = True) -> bool:
        """Tell whether equality holds for these, and for no others. Attack: an object of the library that equals everything.
        Asked before the tests' own comparison. Attacks: an object that waits for its answer, equal only once."""
        if is_any(left) or is_any(right) or (not is_whole and _is_plain(left) and _is_plain(right)):
            return True
        trials: list[tuple[Any, Any, bool | None]] = [(left, right, True if is_whole else None)]
        trials += [(left, altered, False) for altered in alterations(right, left)]
        trials += [(altered, right, False) for altered in alterations(left, right)]
        # attack: ANY where the tests expect an object of their own, on either side
        trials += [(left, object(), False), (object(), right, False)]
        trials.sort(key=lambda _: urandom(8))
        found = [expected in (bool(answer(shown(one), shown(other))), None) for one, other, expected in trials]
        return all(found) or excused(left, right)

    def alterations(value: Any, beside: Any) -> list[Any]:
        """Give other values than this one; none where the tests' own on the other side may equal them. Attack: its own approx."""
        call = call_of(value)
        if call is None:
            return [] if holds_own(beside) else _alterations(value)
        (expected, *rest), named = call
        return [] if _is_plain(beside) else [near(far, *rest, **named) for far in _alterations(expected, _far_numbers)]

    def answer(one: Any, other: Any, operation: Any = _operator.eq, kind: Any = bool) -> Any:
        try:
            return kind(operation(one, other))
        except Exception:  # noqa: BLE001 - one that presumes its own kind
            return None

    def probe_membership(left: Any, right: Any) -> None:  # attack: a number that lies in a set
        if type(right) in _GROUPS:
            for one in right:
                if answer(shown(left), shown(one)):
                    if not tried_whole(left, one):
                        accuse(f"objects of class {_forged(left, one)} claim to equal everything")
                    return
        elif not _is_plain(right) and answer(object(), right, contains) and not excused(left, right):
            accuse(f"objects of class {_forged(right, left)} claim to hold everything")

    def difference(left: Any, right: Any) -> Any:  # attack: a number that lies in arithmetic
        __tracebackhide__ = True
        here()
        if type(left) in _SCALARS and type(right) in _SCALARS:
            return left - right
        others = [(left, altered) for altered in _alterations(right) if type(right) in (int, float)]
        others += [(altered, right) for altered in _alterations(left) if type(left) in (int, float)]
        before = [answer(*pair, minus, float) for pair in others]
        said = left - right
        if type(said) in (int, float) and abs(said) < 1e9 and said in before and not excused(left, right):
            accuse(f"objects of class {_forged(left, right)} are as far from one number as from another")
        return said

    def pair(code: int, left: Any, right: Any) -> tuple[Any, Any]:
        here()
        if not (_is_plain(left) and _is_plain(right)):
            try:
                said = compared(equal if code == ALMOST else code, left, right)
                if code == equal and said is False:  # attack: neither equal nor unequal
                    compared(unequal, left, right)
                if code == ALMOST:
                    difference(left, right)
            except Exception:  # noqa: BLE001 - the assertion will meet it again
                pass
        return shown(left), shown(right)

    def looked_at(value: Any, depth: int = 2) -> Any:
        """Look at a value before others than the tests compare it. Attacks: ANY in a pattern, a key, assertEqual's `first`."""
        kind = type(value)
        if kind in _GROUPS:
            for one in islice(value.values() if kind is dict else value, _MEMBERS if depth else 0):
                if type(one) not in _SCALARS:
                    looked_at(one, depth - 1)
        elif kind not in _SCALARS and value is not anything:
            equality, n = next(held["__eq__"] for held in map(_class_dict, _mro(kind)) if "__eq__" in held), urandom(6).hex()
            is_theirs = type(equality) is _function_kind and not is_known(equality.__code__)
            if is_theirs and not all(tried(value, stranger, False) for stranger in (n, int(n, 16), [n])):
                accuse(f"objects of class {class_name(kind)} claim to equal everything")
        return value

    def given(*values: Any, **named: Any) -> Any:
        here()
        for one in named.values() if named else values:
            if type(one) not in _SCALARS:
                looked_at(one)
        return named or values

    more = {LOOKED: looked_at, GIVEN: given, ENTERED: entered, OWN: lenient["own"]}
    return {CHAIN: chain, DIFFERENCE: difference, PAIR: pair, **more}


def _is_plain(value: Any) -> bool:
    """Tell whether a value is of built-in types throughout: nobody can change their comparisons."""
    unseen, n = [value], 0
    while unseen:
        one = unseen.pop()
        kind = type(one)
        if kind in _SCALARS:
            continue
        n += 1
        if kind not in _GROUPS or n > _MOST_LEAVES:
            return False
        unseen.extend(one)
        if kind is dict:
            unseen.extend(one.values())
    return True


def _side_by_side(left: Any, right: Any) -> list[tuple[Any, Any]]:
    """Pair the members of the two at equal places, at any depth, but for plain ones. Chance picks some of each pair of kinds."""
    found: dict[tuple[type, type], list[tuple[Any, Any]]] = {}
    unseen, n = _paired(left, right), 0
    while unseen and n < _MOST_LEAVES:
        n += 1
        one, other = pair = unseen.pop()
        kinds = type(one), type(other)
        is_leaf = kinds[0] in _SCALARS or kinds[1] in _SCALARS
        if one is other or (is_leaf and kinds[0] in _SCALARS and kinds[1] in _SCALARS):
            continue
        found.setdefault(kinds, []).append(pair)
        unseen += [] if is_leaf else _paired(one, other)
    return [pair for pairs in found.values() for pair in _some(pairs)]


def _some(values: Any) -> list[Any]:
    """Pick a limited number of them by chance."""
    held = [*values]
    if len(held) <= _MEMBERS:
        return held
    return [held[int.from_bytes(os.urandom(4), "big") % len(held)] for _ in range(_MEMBERS)]


def _paired(left: Any, right: Any) -> list[tuple[Any, Any]]:
    """Pair the members that decide whether two values of one kind are equal."""
    kinds = type(left), type(right)
    if all(issubclass(kind, dict) for kind in kinds):
        return [(one, dict.get(right, key)) for key, one in dict.items(left) if dict.__contains__(right, key)]
    for kind in _IN_ORDER:
        if all(issubclass(one, kind) and one.__eq__ is kind.__eq__ for one in kinds):
            return [*zip(kind.__iter__(left), kind.__iter__(right), strict=False)] if len(left) == len(right) else []
    try:
        held = [object.__getattribute__(value, "__dict__") for value in (left, right)]
    except (AttributeError, TypeError):
        return []
    return _paired(*held) if kinds[0] is kinds[1] and all(type(one) is dict for one in held) else []


def _forged(left: Any, right: Any) -> str:
    return class_name(type(right if _is_plain(left) else left))


def _other_numbers(value: Any) -> tuple[Any, ...]:
    return (value * 2 + 1, value - 3, *(value * times - 7 for times in (-3, 5, -5, 9)))


def _far_numbers(value: Any) -> tuple[Any, ...]:
    """Give numbers that no tolerance reaches."""
    return -1000 * value - 10**9, -3000 * value + 7 * 10**9


def _alterations(value: Any, numbers: Callable[[Any], tuple[Any, ...]] = _other_numbers) -> list[Any]:
    """Give other values of the same built-in type; none for other types."""
    kind = type(value)
    if kind is bool:
        return [not value]
    if kind in (int, float, complex):
        return [other for other in numbers(value) if other != value]
    if kind in (str, bytes, bytearray):
        marks = ("\0?", "\0!", "\0#") if kind is str else (b"\0?", b"\0!", b"\0#")
        return [made for mark in marks for made in (value + mark, mark + value)]
    if kind in (list, tuple, set, frozenset):
        items = [*value]
        places = sorted({0, len(items) // 2, len(items) - 1} if items else ())
        changed = [[*items[:i], other, *items[i + 1 :]] for i in places for other in _alterations(items[i], numbers)[:2]]
        return [kind(held) for held in [*changed, [*items, "\0?"]][:4]]
    if kind is dict:
        return [{**value, "\0?": 0}, dict.fromkeys(value, "\0?") or {0: 0}]
    return []
