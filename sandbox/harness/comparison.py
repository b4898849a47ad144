"""Tests compare; this notices objects that let any comparison hold.

Comparisons and differences in the tests' own text, and the pairs given to unittest's assertions, go through functions of this
file. Where an operand is not of a plain built-in type, the same comparison is tried with other values, in an order nobody can
foresee: an object that equals 4711 and also 4712 is forged, and so is one that changes its mind.
"""

from __future__ import annotations

import _operator
import builtins
import os
from _ast import (
    AST,
    Attribute,
    BinOp,
    Call,
    Compare,
    Constant,
    Eq,
    Gt,
    GtE,
    IfExp,
    In,
    Is,
    IsNot,
    Load,
    Lt,
    LtE,
    NotEq,
    NotIn,
    Starred,
    Sub,
)

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

_SCALARS = (int, float, str, bool, type(None), bytes, complex, range, type, bytearray)
_GROUPS = (list, tuple, set, frozenset, dict)
_MOST_LEAVES = 20000
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    Eq: _operator.eq,
    NotEq: _operator.ne,
    Lt: _operator.lt,
    LtE: _operator.le,
    Gt: _operator.gt,
    GtE: _operator.ge,
    Is: _operator.is_,
    IsNot: _operator.is_not,
    In: lambda a, b: a in b,
    NotIn: lambda a, b: a not in b,
}
_ASSERTIONS = {
    **dict.fromkeys(
        (
            *("assertEqual", "assertEquals", "assertListEqual", "assertTupleEqual", "assertDictEqual", "assertSetEqual"),
            *("assertSequenceEqual", "assertMultiLineEqual", "assertCountEqual", "assertAlmostEqual", "assertAlmostEquals"),
        ),
        Eq,
    ),
    "assertIn": In,
    **{f"assert{name}": kind for name, kind in (("Less", Lt), ("LessEqual", LtE))},
    **{f"assert{name}": kind for name, kind in (("Greater", Gt), ("GreaterEqual", GtE))},
}
_REVERSED = {Lt: Gt, LtE: Gt, Gt: Lt, GtE: Lt}
_CHAIN, _DIFFERENCE, _PAIR = (f"parley {name} {os.urandom(8).hex()}" for name in ("chain", "difference", "pair"))

class_name = type.__dict__["__name__"].__get__


def comparing(accuse: Callable[[str], None], lenient: tuple[type, ...] = ()) -> dict[str, Callable[..., Any]]:
    """The functions that tests compare with, by the constants that stand for them in the instrumented tree.

    Args:
        accuse: told of a forged comparison; does not return to the candidate.
        lenient: types of the tests' own that may equal many things (unittest.mock's ANY, say).
    """
    kinds = tuple(_OPERATIONS)
    operations = tuple(_OPERATIONS.values())
    equal, contains, urandom = kinds.index(Eq), kinds.index(In), os.urandom

    def chain(codes: tuple[int, ...], *operands: Any) -> Any:
        said: Any = None
        for i, code in enumerate(codes):
            said = compared(code, operands[i], operands[i + 1])
            if i + 1 < len(codes) and not said:
                break
        return said

    def compared(code: int, left: Any, right: Any) -> Any:
        if _is_plain(left) and _is_plain(right):
            return operations[code](left, right)
        said = operations[code](left, right)
        kind = kinds[code]
        if kind is Eq and is_true(said):
            probe_equality(left, right)
        elif kind in _REVERSED and type(said) is bool and said:
            probe_order(kind, left, right)
        elif kind is In and said is True:
            probe_membership(left, right)
        return said

    def is_true(said: Any) -> bool:
        try:
            return bool(said)
        except Exception:  # noqa: BLE001 - an array's answer is neither
            return False

    def probe_equality(left: Any, right: Any) -> None:
        if lenient and (_holds(left, lenient) or _holds(right, lenient)):
            return
        trials = [(left, right, True)] * 2
        for altered in _alterations(right):
            trials += [(left, altered, False)] * 2
        for altered in _alterations(left):
            trials += [(altered, right, False)] * 2
        trials.append((left, object(), False) if not _is_plain(left) else (object(), right, False))
        for one, other, expected in sorted(trials, key=lambda _: urandom(8)):
            if holds(one, other) is not expected:
                accuse(f"objects of class {_forged(left, right)} claim to equal everything")

    def holds(one: Any, other: Any) -> bool:
        try:
            return bool(operations[equal](one, other))
        except Exception:  # noqa: BLE001 - an equality that presumes its own kind
            return False

    def probe_order(kind: type, left: Any, right: Any) -> None:
        try:
            also = operations[kinds.index(_REVERSED[kind])](left, right)
        except Exception:  # noqa: BLE001 - what cannot be compared that way claims nothing
            return
        if also is True:
            accuse(f"objects of class {_forged(left, right)} are less and greater at once")

    def probe_membership(left: Any, right: Any) -> None:
        if not _is_plain(left) and type(right) in _GROUPS:
            for one in right:
                if holds(left, one):
                    probe_equality(left, one)
                    return
        elif not _is_plain(right):
            try:
                holds_all = operations[contains](object(), right)
            except Exception:  # noqa: BLE001 - what holds no such object claims nothing
                return
            if holds_all is True:
                accuse(f"objects of class {_forged(right, left)} claim to hold everything")

    def difference(left: Any, right: Any) -> Any:
        said = left - right
        if type(left) in _SCALARS and type(right) in _SCALARS:
            return said
        for altered in _alterations(right) if type(right) in (int, float) else ():
            if type(said) in (int, float) and abs(said) < 1e9 and left - altered == said:
                accuse(f"objects of class {_forged(left, right)} are as far from one number as from another")
        for altered in _alterations(left) if type(left) in (int, float) else ():
            if type(said) in (int, float) and abs(said) < 1e9 and altered - right == said:
                accuse(f"objects of class {_forged(left, right)} are as far from one number as from another")
        return said

    def pair(code: int, left: Any, right: Any) -> tuple[Any, Any]:
        if not (_is_plain(left) and _is_plain(right)):
            try:  # noqa: SIM105 - contextlib costs an import
                compared(code, left, right)
            except Exception:  # noqa: BLE001 - the assertion will meet it again
                pass
        return left, right

    return {_CHAIN: chain, _DIFFERENCE: difference, _PAIR: pair}


def _is_plain(value: Any) -> bool:
    """Whether it is of a built-in type throughout, whose comparisons nobody can change."""
    if type(value) in _SCALARS:
        return True
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


def _holds(value: Any, kinds: tuple[type, ...]) -> bool:
    """Whether it is, or holds at some depth of built-in groups, an object of these kinds."""
    if isinstance(value, kinds):
        return True
    inner = value.values() if type(value) is dict else value if type(value) in _GROUPS else ()
    return any(_holds(one, kinds) for one in inner)


def _forged(left: Any, right: Any) -> str:
    return class_name(type(right if _is_plain(left) else left))


def _alterations(value: Any) -> list[Any]:
    """Up to two other values of the same built-in type; none for other types."""
    kind = type(value)
    if kind is bool:
        return [not value]
    if kind in (int, float, complex):
        return [value * 2 + 1 if value * 2 + 1 != value else value - 3, value * -3 - 7]
    if kind in (str, bytes, bytearray):
        mark = "\0?" if kind is str else b"\0?"
        return [value + mark, mark + value]
    if value is None:
        return ["\0?"]
    if kind in (list, tuple):
        changed = [
            [*value[:i], other, *value[i + 1 :]] for i in {0, len(value) - 1} if value for other in _alterations(value[i])[:1]
        ]
        return [kind(items) for items in [*changed, [*value, "\0?"]][:2]]
    if kind in (set, frozenset):
        return [kind([*value, "\0?"]), kind([*list(value)[1:], "\0?"])]
    if kind is dict:
        return [{**value, "\0?": 0}, dict.fromkeys(value, "\0?") or {0: 0}]
    return []


def instrumented(tree: Any) -> Any:
    """The tree of a statement whose comparisons, differences and assertions on pairs go through the functions above."""
    for name in tree._fields:
        child = getattr(tree, name, None)
        if isinstance(child, AST):
            setattr(tree, name, instrumented(child))
        elif isinstance(child, list):
            child[:] = [instrumented(item) if isinstance(item, AST) else item for item in child]
    kind = type(tree)
    if kind is Compare and any(type(op) not in (Is, IsNot) for op in tree.ops):
        return _call(_CHAIN, tree, [_codes(tree, [type(op) for op in tree.ops]), tree.left, *tree.comparators])
    if kind is BinOp and type(tree.op) is Sub:
        return _call(_DIFFERENCE, tree, [tree.left, tree.right])
    if kind is Call and _asserts_of_two(tree):
        code = _at(tree, Constant(tuple(_OPERATIONS).index(_ASSERTIONS[tree.func.attr])))
        both = _call(_PAIR, tree, [code, *tree.args[:2]])
        tree.args[:2] = [_at(tree, Starred(both, Load()))]
    return tree


def _asserts_of_two(call: Any) -> bool:
    if type(call.func) is not Attribute or call.func.attr not in _ASSERTIONS or len(call.args) < 2:
        return False
    return not any(type(argument) is Starred for argument in call.args[:2])


def _codes(place: Any, kinds: list[type]) -> Any:
    known = tuple(_OPERATIONS)
    codes: Any = tuple(known.index(kind) for kind in kinds)
    return _at(place, Constant(codes))


def _call(name: str, place: Any, arguments: list[Any]) -> Any:
    # A conditional, since the compiler warns of a constant that is called.
    function = IfExp(*(_at(place, Constant(name)) for _ in range(3)))
    return _at(place, Call(_at(place, function), arguments, []))


def _at(place: Any, node: Any) -> Any:
    node.lineno, node.col_offset = place.lineno, place.col_offset
    node.end_lineno, node.end_col_offset = place.end_lineno, place.end_col_offset
    return node


def bound(code: CodeType, functions: dict[str, Callable[..., Any]]) -> CodeType:
    """The code with the functions in the place of the constants that stand for them."""
    constants: list[Any] = []
    kind: Any = type(code)
    for value in code.co_consts:
        constant: Any = value
        if type(value) is str and value in functions:
            constant = functions[value]
        constants.append(bound(constant, functions) if type(constant) is kind else constant)
    return code.replace(co_consts=tuple(constants))
