"""Changes the tests' text: comparisons and calls go through functions that look at their values (see `comparison.py`)."""

from __future__ import annotations

import _ast
import builtins
import sys

from comparison import ALMOST, CHAIN, COMPARISONS, DIFFERENCE, ENTERED, GIVEN, LOOKED, OWN, PAIR

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

ast: Any = type(sys.implementation)(**vars(_ast))
"""The kinds of nodes: a copy, since the candidate can change the common ones."""
_EQUALITIES = (
    *("assertEqual", "assertEquals", "assertListEqual", "assertTupleEqual", "assertDictEqual", "assertSetEqual"),
    *("assertSequenceEqual", "assertMultiLineEqual", "assertCountEqual", "assert_equal", "assert_array_equal"),
)
_OTHERS = {"In": ast.In, "Less": ast.Lt, "LessEqual": ast.LtE, "Greater": ast.Gt, "GreaterEqual": ast.GtE}
_ASSERTIONS = {
    **dict.fromkeys(_EQUALITIES, COMPARISONS.index(ast.Eq)),
    **dict.fromkeys(("assertAlmostEqual", "assertAlmostEquals"), ALMOST),
    **{f"assert{name}": COMPARISONS.index(kind) for name, kind in _OTHERS.items()},
}
_LENIENT = ("ANY", "approx")
"""Names of objects that equal many things. An import gives the object itself, which counts by identity (see `leniency`)."""
_BUILDERS = (dict, list, tuple, set, frozenset, zip, enumerate, reversed, iter, all, any, len, str, repr)
"""Built-ins that hand none of their arguments to the candidate."""
_function_kind = type(lambda: None)


def own_finder() -> Callable[[Any], Any]:
    """Make a function that changes a statement: names of an import or class ask for the tests' own. Attack: ANY handed over."""
    imported: dict[str, bool] = {}
    """Name -> whether it stands for the object itself, and not for its module."""

    def find(statement: Any) -> Any:
        constants: list[Any] = []
        for node in nodes_of(statement):
            for item in node.names if type(node) in (ast.Import, ast.ImportFrom) else ():
                names = _LENIENT if item.name == "*" else (item.asname or item.name.partition(".")[0],)
                imported.update(dict.fromkeys(names, type(node) is ast.ImportFrom and item.name in (*_LENIENT, "*")))
            if type(node) is ast.Assign and type(node.value) is ast.Constant:
                constants += node.targets  # where an import fails, say
            if type(node) is ast.Name and type(node.ctx) is ast.Store and not any(node is target for target in constants):
                imported.pop(node.id, None)
            if type(node) is ast.ClassDef and any(getattr(one, "name", None) == "__eq__" for one in node.body):
                imported[node.name] = True
        return asking(statement, ()) if imported else statement

    def asking(tree: Any, callees: tuple[Any, ...], is_called: bool = False) -> Any:
        """Ask in the tree, whose value is handed to these callees."""
        if type(tree) in (ast.Name, ast.Attribute) and type(tree.ctx) is ast.Load and is_meant(tree):
            return _call(OWN, tree, [tree, _at(tree, ast.Constant(is_called)), *callees])
        # It hands on nothing of what it compares.
        compares = type(tree) is ast.Compare or (type(tree) is ast.Call and _asserts_of_two(tree))
        handed = () if compares else callees
        if type(tree) is ast.Call and not compares:
            handed = (*callees, tree.func if root_of(tree.func) is not None else _at(tree, ast.Constant(None)))
        func = tree.func if type(tree) is ast.Call else None
        return with_children(tree, lambda child: asking(child, callees, True) if child is func else asking(child, handed))

    def is_meant(node: Any) -> bool:
        return imported.get(node.id, False) if type(node) is ast.Name else node.attr in _LENIENT and root_of(node) in imported

    return find


def root_of(node: Any) -> str | None:
    """Give the name that a dotted one begins with."""
    while type(node) is ast.Attribute:
        node = node.value
    return node.id if type(node) is ast.Name else None


def nodes_of(tree: Any) -> list[Any]:
    """List a tree's nodes, itself first."""
    found: list[Any] = [tree]
    for node in found:
        for field in node._fields:
            child = getattr(node, field, None)
            found.extend(item for item in (child if isinstance(child, list) else (child,)) if isinstance(item, ast.AST))
    return found


def with_children(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Give a tree whose children are what `change` makes of them."""
    for name in tree._fields:
        child = getattr(tree, name, None)
        if isinstance(child, ast.AST):
            setattr(tree, name, change(child))
        elif isinstance(child, list):
            child[:] = [change(item) if isinstance(item, ast.AST) else item for item in child]
    return tree


def instrumented(tree: Any, is_projects: bool = False) -> Any:
    """Have a statement's comparisons, differences and assertions on pairs go through the functions above.

    Args:
        is_projects: nothing else changes, and what stands behind a comparison that decides is evaluated only where it was: longer
            ones count if that costs nothing.
    """
    with_children(tree, lambda child: instrumented(child, is_projects))
    if is_projects:
        is_long = type(tree) is ast.Compare and not all(type(node) in (ast.Name, ast.Constant) for node in tree.comparators[1:])
        return tree if is_long else _through(tree)
    if type(tree) is ast.Call and not _asserts_of_two(tree) and type(tree.func) is not ast.IfExp:  # our own
        _look_before(tree)
    elif hasattr(tree, "subject"):  # of a `match`
        tree.subject = _call(LOOKED, tree.subject, [tree.subject])
    elif type(tree) in (ast.FunctionDef, ast.AsyncFunctionDef) and (tree.name == "check" or _is_method(tree)):
        first = tree.body[0]
        n_texts = int(type(first) is ast.Expr and type(first.value) is ast.Constant)
        said = _call(ENTERED, first, [_at(first, ast.Constant(_is_method(tree)))])
        tree.body.insert(n_texts, _at(first, ast.Expr(said)))
    return _through(tree)


def _through(tree: Any) -> Any:
    """Have one comparison, difference or assertion on a pair go through its function. Anything else stays."""
    kind = type(tree)
    if kind is ast.Compare and any(type(op) not in (ast.Is, ast.IsNot) for op in tree.ops):
        codes = _at(tree, ast.Constant(tuple(COMPARISONS.index(type(op)) for op in tree.ops)))
        return _call(CHAIN, tree, [codes, tree.left, *tree.comparators])
    if kind is ast.BinOp and type(tree.op) is ast.Sub:
        return _call(DIFFERENCE, tree, [tree.left, tree.right])
    if kind is ast.Call and _asserts_of_two(tree):
        code = _at(tree, ast.Constant(_ASSERTIONS[tree.func.attr]))
        both = _call(PAIR, tree, [code, *tree.args[:2]])
        tree.args[:2] = [_at(tree, ast.Starred(both, ast.Load()))]
    return tree


def _is_method(function: Any) -> bool:
    return function.name.startswith("test") and any(one.arg == "self" for one in function.args.args[:1])


def _look_before(call: Any) -> None:
    """Have a call look at what it is given, and whether all is still as the tests have it."""
    if type(call.func) is ast.Attribute:
        call.func.value = _call(LOOKED, call, [call.func.value])
    call.args = [_at(call, ast.Starred(_call(GIVEN, call, call.args), ast.Load()))]
    if call.keywords:
        call.keywords = [_at(call, ast.keyword(None, _call(GIVEN, call, [], call.keywords)))]


def _asserts_of_two(call: Any) -> bool:
    if type(call.func) is not ast.Attribute or call.func.attr not in _ASSERTIONS or len(call.args) < 2:
        return False
    return not any(type(argument) is ast.Starred for argument in call.args[:2])


def _call(name: str, place: Any, arguments: list[Any], keywords: Any = ()) -> Any:
    # A conditional, since the compiler warns of a constant that is called.
    function = ast.IfExp(*(_at(place, ast.Constant(name)) for _ in range(3)))
    return _at(place, ast.Call(_at(place, function), arguments, [*keywords]))


def _at(place: Any, node: Any) -> Any:
    node.lineno, node.col_offset = place.lineno, place.col_offset
    node.end_lineno, node.end_col_offset = place.end_lineno, place.end_col_offset
    return node


def bound(code: CodeType, functions: dict[str, Callable[..., Any]]) -> CodeType:
    """Put the functions in the place of the constants that stand for them."""
    kind: Any = type(code)
    named: list[Any] = [functions.get(value, value) if type(value) is str else value for value in code.co_consts]
    return code.replace(co_consts=tuple(bound(one, functions) if type(one) is kind else one for one in named))


def leniency(tests: str | None, anything: Any, near: Any, is_known: Callable[[Any], bool] = lambda code: False) -> dict[str, Any]:
    """Make functions: `own` gives the tests their own, `is_any`, `call_of` and `holds` know it again, `shown` hides it.

    Args:
        tests: file name that the tests are compiled with. None gives them their own wherever they name it.
        is_known: whether code is of the tests or of a library.
        anything: `unittest.mock.ANY` as the tests import it, or None.
        near: `pytest.approx`, or None.
    """
    stand_in = None if anything is None else type(anything)()
    made: dict[int, tuple[Any, Any, Any]] = {} if anything is None else {id(stand_in): (stand_in, None, anything)}
    """Id of the tests' own -> itself, the call that made it if that is `near`'s, and what it is shown as."""
    bound_kind, get = type(leniency.__get__(0)), dict.get

    def own(value: Any, is_called: bool, *callees: Any) -> Any:
        if value is None or not (tests is None or all(is_tests(callee) for callee in callees)):
            return value
        if is_called and (value is near or (tests and type(value) is type and is_tests(vars(value).get("__eq__")))):
            return lambda *arguments, **named: kept(value, value(*arguments, **named), (arguments, named))
        return stand_in if value is anything else value

    def kept(kind: Any, found: Any, call: tuple[Any, Any]) -> Any:
        try:
            if kind is near or all(found == object() for _ in range(2)):
                made[id(found)] = (found, call, None) if kind is near else (found, None, found)
        except Exception:  # noqa: BLE001 - one that presumes its own kind
            pass
        return found

    def is_tests(callee: Any) -> bool:
        """Tell whether it is a function of the tests, or a built-in that hands on nothing."""
        function = callee.__func__ if type(callee) is bound_kind else callee
        if type(function) is _function_kind:
            return function.__code__.co_filename == tests
        return any(callee is builder for builder in _BUILDERS)

    def holds(value: Any) -> bool:
        """Tell whether it is one of the tests' own, or holds one at some depth of built-in groups."""
        inner = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
        return bool(made) and (id(value) in made or any(holds(one) for one in inner))

    def shown(value: Any) -> Any:
        if not holds(value):
            return value
        if type(value) is dict:
            return {key: shown(one) for key, one in value.items()}
        if type(value) in (list, tuple):
            return type(value)([shown(one) for one in value])
        _, call, itself = made[id(value)]
        return itself if call is None else near(*call[0], **call[1])

    known = {"is_any": lambda one: get(made, id(one), (0, 0))[1] is None, "call_of": lambda one: get(made, id(one), (0, None))[1]}
    return {**known, "anything": anything, "is_known": is_known, "own": own, "holds": holds, "shown": shown, "near": near}
