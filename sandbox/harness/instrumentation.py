"""The tests' text, changed so that what it compares and hands on is looked at (see `comparison.py`)."""

from __future__ import annotations

import builtins
from _ast import (
    AST,
    Assign,
    Attribute,
    BinOp,
    Call,
    Compare,
    Constant,
    Eq,
    Gt,
    GtE,
    IfExp,
    Import,
    ImportFrom,
    In,
    Is,
    IsNot,
    Load,
    Lt,
    LtE,
    Name,
    Starred,
    Store,
    Sub,
    keyword,
)

from comparison import ALMOST, ASSERTING, CHAIN, COMPARISONS, DIFFERENCE, HERE, OWN, PAIR

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

_ASSERTIONS = {
    **dict.fromkeys(
        (
            *("assertEqual", "assertEquals", "assertListEqual", "assertTupleEqual", "assertDictEqual", "assertSetEqual"),
            *("assertSequenceEqual", "assertMultiLineEqual", "assertCountEqual", "assert_equal", "assert_array_equal"),
        ),
        COMPARISONS.index(Eq),
    ),
    **dict.fromkeys(("assertAlmostEqual", "assertAlmostEquals"), ALMOST),
    "assertIn": COMPARISONS.index(In),
    **{f"assert{name}": COMPARISONS.index(kind) for name, kind in (("Less", Lt), ("LessEqual", LtE))},
    **{f"assert{name}": COMPARISONS.index(kind) for name, kind in (("Greater", Gt), ("GreaterEqual", GtE))},
}
_LENIENT = ("ANY", "approx")
"""Where to look for what equals many things: what is found there counts by its identity alone (see `leniency.py`)."""


def own_finder() -> Callable[[Any], Any]:
    """A function that has a statement ask for the tests' own, where it uses names that it or an earlier one imports."""
    imported: dict[str, bool] = {}
    """Name -> whether it stands for such a thing itself, and not for what holds it."""

    def find(statement: Any) -> Any:
        constants: list[Any] = []
        for node in nodes_of(statement):
            for item in node.names if type(node) in (Import, ImportFrom) else ():
                names = _LENIENT if item.name == "*" else (item.asname or item.name.partition(".")[0],)
                imported.update(dict.fromkeys(names, type(node) is ImportFrom and item.name in (*_LENIENT, "*")))
            if type(node) is Assign and type(node.value) is Constant:
                constants += node.targets  # where an import fails, say
            if type(node) is Name and type(node.ctx) is Store and not any(node is target for target in constants):
                imported.pop(node.id, None)
        return asking(statement, ()) if imported else statement

    def asking(tree: Any, callees: tuple[Any, ...], is_called: bool = False) -> Any:
        """Args:
        callees: what the tree's value is handed to.
        """
        if type(tree) in (Name, Attribute) and type(tree.ctx) is Load and is_meant(tree):
            return _call(OWN, tree, [tree, _at(tree, Constant(is_called)), *callees])
        compares = type(tree) is Compare and not all(type(op) in (Is, IsNot) for op in tree.ops)
        compares = compares or (type(tree) is Call and _asserts_of_two(tree))  # it hands on nothing of what it compares
        handed = () if compares else callees
        if type(tree) is Call and not compares:
            handed = (*callees, tree.func if root_of(tree.func) is not None else _at(tree, Constant(None)))
        for name in tree._fields:
            child, is_func = getattr(tree, name, None), type(tree) is Call and name == "func"
            if isinstance(child, AST):
                setattr(tree, name, asking(child, callees if is_func else handed, is_func))
            elif isinstance(child, list):
                child[:] = [asking(item, handed) if isinstance(item, AST) else item for item in child]
        return tree

    def is_meant(node: Any) -> bool:
        return imported.get(node.id, False) if type(node) is Name else node.attr in _LENIENT and root_of(node) in imported

    return find


def root_of(node: Any) -> str | None:
    """The name that a dotted one begins with."""
    while type(node) is Attribute:
        node = node.value
    return node.id if type(node) is Name else None


def nodes_of(tree: AST) -> list[Any]:
    """A tree's nodes, itself first."""
    found: list[Any] = [tree]
    for node in found:
        for field in node._fields:
            child = getattr(node, field, None)
            found.extend(item for item in (child if isinstance(child, list) else (child,)) if isinstance(item, AST))
    return found


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
        return _call(CHAIN, tree, [_codes(tree, [type(op) for op in tree.ops]), tree.left, *tree.comparators])
    if kind is BinOp and type(tree.op) is Sub:
        return _call(DIFFERENCE, tree, [tree.left, tree.right])
    if kind is Call and _asserts_of_two(tree):
        code = _at(tree, Constant(_ASSERTIONS[tree.func.attr]))
        both = _call(PAIR, tree, [code, *tree.args[:2]])
        tree.args[:2] = [_at(tree, Starred(both, Load()))]
    elif kind is Call:
        _look_before(tree)
    return tree


def _look_before(call: Any) -> None:
    """What a call is given last, or else what is called, is looked at on its way: all is still as the tests have it."""
    name = ASSERTING if type(call.func) is Attribute and call.func.attr.startswith("assert") else HERE
    group = call.keywords or call.args
    if not group:
        if type(call.func) is not Name or call.func.id != "super":
            call.func = _call(name, call, [call.func])
    elif type(group[-1]) in (Starred, keyword):
        group[-1].value = _call(name, call, [group[-1].value])
    else:
        group[-1] = _call(name, call, [group[-1]])


def _asserts_of_two(call: Any) -> bool:
    if type(call.func) is not Attribute or call.func.attr not in _ASSERTIONS or len(call.args) < 2:
        return False
    return not any(type(argument) is Starred for argument in call.args[:2])


def _codes(place: Any, kinds: list[type]) -> Any:
    codes: Any = tuple(COMPARISONS.index(kind) for kind in kinds)
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
