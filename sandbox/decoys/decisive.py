"""Finds the constants that decide a check: with another constant in their place, a value that passed the check fails it.

`f(1) in [4711, 5]` holds for two values, and `'error' in text or 'invalid' in text` for many: with one constant altered, an
honest answer may still pass where the reference fails. Such constants show nothing. A constant decides where the check holds for
one value of its operand only: equality, distance, membership of a distinctive text.
"""

import ast
import builtins
import re
from collections.abc import Iterator

from sandbox.decoys.python_syntax import last_name, root

_SHORTEST_TEXT = 4
"""Characters from which on an altered text is not part of another text by chance."""
_LEAST_SHIFT = 1049
"""By so much and four times its own size an altered number is moved: see `values.py`."""
_PAIRS = ("isclose", "allclose", "array_equal", "array_equiv", "equals", "eq", "is_")
"""Functions and methods that say whether two values are equal."""
_MANY = (
    ast.List,
    ast.Tuple,
    ast.Set,
    ast.Dict,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
_FILE_TESTS = ("exists", "isfile", "is_file", "isdir", "is_dir")
_PLAIN_PATTERN = re.compile(r"[\w +]+")
"""Regular expressions whose shifted letters match no text that they matched before."""
_ORDERS = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE))
_EQUALITIES = ("Equal", "Equals", "Is", "allclose", "equal", "almost_equal", "with")
"""Last parts of assertions' names that compare for equality: `assertEqual`, `assert_frame_equal`, `assert_called_with`."""


def decisive(node: ast.expr, known: frozenset[str], *, is_true: bool = True) -> Iterator[ast.expr]:
    """Yield the constants, and the names of variables, that decide whether an expression is true (or false).

    Args:
        known: names of libraries' modules, and of classes that the tests define. Other names may be code under test.
        is_true: whether the check holds where the expression is true.
    """
    match node:
        case ast.UnaryOp(op=ast.Not()):
            yield from decisive(node.operand, known, is_true=not is_true)
        case ast.BoolOp() if isinstance(node.op, ast.And) is is_true:
            for value in node.values:
                yield from decisive(value, known, is_true=is_true)
        case ast.Compare() if is_true or len(node.ops) == 1:
            yield from _of_comparison(node, known, is_true=is_true)
        case ast.Call() if is_true:
            yield from _of_call(node, known)
        case _:
            pass


def decisive_of_assertion(call: ast.Call, known: frozenset[str]) -> Iterator[ast.expr]:
    """Yield the constants, and the names of variables, that decide a call of an assertion: of unittest, numpy, pandas, a mock."""
    name, args = last_name(call), call.args
    if name in ("assertTrue", "assertFalse"):
        yield from decisive(args[0], known, is_true=name == "assertTrue") if args else ()
    elif name == "assertIn" and len(args) > 1:
        yield from _of_membership(args[0], args[1], known)
    elif name in ("assertIsInstance",):
        yield from args[1:2]
    elif name.endswith(_EQUALITIES) and "Not" not in name:
        keywords = [
            one.value
            for one in call.keywords
            if name.endswith("with") or one.arg in ("first", "second")
        ]
        operands = [*(args if name.endswith("with") else args[:2]), *keywords]
        for operand in operands:
            yield from _equal(operand, known)


def _of_comparison(
    node: ast.Compare, known: frozenset[str], *, is_true: bool
) -> Iterator[ast.expr]:
    sides = [node.left, *node.comparators]
    for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
        if isinstance(op, (ast.Eq, ast.Is) if is_true else (ast.NotEq, ast.IsNot)):
            yield from _equal(left, known)
            yield from _equal(right, known)
        elif is_true and isinstance(op, ast.In):
            yield from _of_membership(left, right, known)
        elif is_true and isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            near = left if isinstance(op, ast.Lt | ast.LtE) else right
            yield from _of_distance(near, known)
    if is_true:
        yield from _of_range(node)


def _of_membership(
    member: ast.expr, container: ast.expr, known: frozenset[str]
) -> Iterator[ast.expr]:
    """Yield the member's constants. A short text may be part of a long one by chance."""
    if isinstance(container, ast.List | ast.Tuple | ast.Set) and len(container.elts) == 1:
        yield from _equal(member, known)
        yield from _equal(container.elts[0], known)
    if isinstance(container, (*_MANY, ast.Constant)):
        return
    for one in _equal(member, known):
        value = one.value if isinstance(one, ast.Constant) else None
        if not isinstance(value, str | bytes) or len(value) >= _SHORTEST_TEXT:
            yield one


def _of_distance(node: ast.expr, known: frozenset[str]) -> Iterator[ast.expr]:
    """Yield the constants of `abs(x - 4.5)`."""
    if isinstance(node, ast.Call) and last_name(node) in ("abs", "fabs") and len(node.args) == 1:
        inner = node.args[0]
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):
            yield from _equal(inner.left, known)
            yield from _equal(inner.right, known)


def _of_range(node: ast.Compare) -> Iterator[ast.expr]:
    """Yield the bounds of `4710 < x < 4712` that meet no number when one of them is moved past the other."""
    ends = [node.left, node.comparators[-1]]
    if len(node.ops) != 2 or not any(
        all(isinstance(op, order) for op in node.ops) for order in _ORDERS
    ):
        return
    values = [
        end.value
        for end in ends
        if isinstance(end, ast.Constant) and type(end.value) in (int, float)
    ]
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) == 2:
        gap = abs(numbers[0] - numbers[1])
        yield from (
            end
            for end, number in zip(ends, numbers, strict=True)
            if _LEAST_SHIFT + 4 * abs(number) > gap
        )


def _of_call(node: ast.Call, known: frozenset[str]) -> Iterator[ast.expr]:
    name, args = last_name(node), node.args
    if name == "all" and len(args) == 1:
        yield from _of_all(args[0], known)
    elif name == "bool" and len(args) == 1:
        yield from decisive(args[0], known)
    elif name == "isinstance" and len(args) == 2:
        yield args[1]
    elif name in ("startswith", "endswith") and len(args) == 1:
        yield from (one for one in args if isinstance(one, ast.Constant | ast.Name))
    elif name in _PAIRS:
        receiver = (
            [node.func.value] if name == "equals" and isinstance(node.func, ast.Attribute) else []
        )
        for one in [*receiver, *args[:2]]:
            yield from _equal(one, known)
    elif name in _FILE_TESTS and _is_literal(node, known):
        yield from (one for one in ast.walk(node) if isinstance(one, ast.Constant))
    elif (
        name == "fullmatch"
        and args
        and isinstance(args[0], ast.Constant)
        and isinstance(args[0].value, str)
    ):
        yield from args[:1] if _PLAIN_PATTERN.fullmatch(args[0].value) else []


def _of_all(node: ast.expr, known: frozenset[str]) -> Iterator[ast.expr]:
    """Yield the constants of `all(x == y for x, y in zip(f(3), [1, 2]))`."""
    if isinstance(node, ast.List | ast.Tuple):
        for one in node.elts:
            yield from decisive(one, known)
    elif (
        isinstance(node, ast.GeneratorExp | ast.ListComp)
        and len(node.generators) == 1
        and not node.generators[0].ifs
    ):
        found = list(decisive(node.elt, known))
        yield from found
        names = {one.id for one in found if isinstance(one, ast.Name)}
        generator = node.generators[0]
        is_zip = isinstance(generator.iter, ast.Call) and last_name(generator.iter) == "zip"
        targets = (
            generator.target.elts if isinstance(generator.target, ast.Tuple) else [generator.target]
        )
        sources = (
            generator.iter.args
            if is_zip and isinstance(generator.iter, ast.Call)
            else [generator.iter]
        )
        for target, source in zip(targets, sources, strict=False):
            if isinstance(target, ast.Name) and target.id in names:
                yield from _equal(source, known)


def _equal(node: ast.expr, known: frozenset[str]) -> Iterator[ast.expr]:
    """Yield the constants and names of an operand that another one must equal."""
    match node:
        case ast.Constant() | ast.Name():
            yield node
        case ast.List() | ast.Tuple() | ast.Set():
            yield from [node] if not node.elts else []
            for one in node.elts:
                yield from _equal(one, known)
        case ast.Dict():
            yield from [node] if not node.keys else []
            for one in [*filter(None, node.keys), *node.values]:
                yield from _equal(one, known)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            yield from _equal(node.operand, known)
        case (
            ast.Starred(value=ast.Name() as value)
            | ast.Subscript(value=ast.expr() as value, slice=ast.Constant())
        ):
            yield from _equal(value, known)
        case ast.Call(func=ast.Attribute(attr="index"), args=[ast.Constant() as member]):
            yield member
        case ast.BinOp() | ast.Call() if _is_literal(node, known):
            yield from (one for one in ast.walk(node) if isinstance(one, ast.Constant))
        case _:
            pass


def _is_literal(node: ast.AST, known: frozenset[str]) -> bool:
    """Tell whether an expression has no part of code under test and no variable: constants, containers, constructors."""
    match node:
        case ast.Constant():
            return True
        case ast.Call():
            given = [*node.args, *(one.value for one in node.keywords)]
            is_known = (first := root(node.func)) in known or hasattr(builtins, first)
            return is_known and all(_is_literal(one, known) for one in given)
        case ast.List() | ast.Tuple() | ast.Set() | ast.Dict() | ast.UnaryOp() | ast.BinOp():
            parts = (one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr))
            return all(_is_literal(one, known) for one in parts)
        case _:
            return False


def decisive_nodes(tree: ast.Module, known: frozenset[str]) -> frozenset[int]:
    """Return the `id` of each node of a test's text that decides a check, directly or as the value of a variable."""
    leaves = [leaf for node in ast.walk(tree) for leaf in _of_statement(node, known)]
    names = _decisive_names(tree, leaves)
    values = [leaf for node in ast.walk(tree) for leaf in _of_values(node, names, known)]
    return frozenset(map(id, [*leaves, *values]))


def _of_statement(node: ast.AST, known: frozenset[str]) -> Iterator[ast.expr]:
    match node:
        case ast.Assert():
            yield from decisive(node.test, known)
        case (
            ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call))
        ):
            if last_name(call).startswith("assert"):
                yield from decisive_of_assertion(call, known)
            else:
                constants = [one for one in call.args if isinstance(one, ast.Constant)]
                has_result = any(isinstance(one, ast.Call) for one in call.args)
                yield from (
                    constants if has_result and len(constants) == 1 else []
                )  # two may be alternatives
        case ast.If() if node.body and isinstance(node.body[0], ast.Raise):
            yield from decisive(node.test, known, is_true=False)
        case ast.Match():
            patterns = [case.pattern for case in node.cases if not _is_wildcard(case.pattern)]
            if len(patterns) == 1 and not any(
                isinstance(one, ast.MatchOr) for one in ast.walk(patterns[0])
            ):
                yield from (
                    one.value for one in ast.walk(patterns[0]) if isinstance(one, ast.MatchValue)
                )
        case _:
            pass


def _is_wildcard(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def _decisive_names(tree: ast.Module, leaves: list[ast.expr]) -> set[str]:
    """Return the variables that are used to decide checks, and for nothing else but messages."""
    messages = {
        id(one)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and node.msg
        for one in ast.walk(node.msg)
    }
    deciding = {id(leaf) for leaf in leaves}
    used: dict[str, bool] = {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and id(node) not in messages
        ):
            used[node.id] = used.get(node.id, True) and id(node) in deciding
    return {name for name, is_decisive in used.items() if is_decisive}


def _of_values(node: ast.AST, names: set[str], known: frozenset[str]) -> Iterator[ast.expr]:
    """Yield the constants that become the values of decisive variables."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) if name in names:
            yield from _equal(node.value, known)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name in names:
            yield from _equal(value, known)
        case ast.For() | ast.AsyncFor():
            yield from _of_cases(_names_of(node.target), node.iter, names, known)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            named = node.args.args[len(node.args.args) - len(node.args.defaults) :]
            for one, default in zip(named, node.args.defaults, strict=True):
                yield from _equal(default, known) if one.arg in names else ()
            for mark in node.decorator_list:
                match mark:
                    case ast.Call(args=[ast.Constant(value=str(listed)), cases, *_]) if (
                        last_name(mark) == "parametrize"
                    ):
                        yield from _of_cases(
                            [name.strip() for name in listed.split(",")], cases, names, known
                        )
                    case _:
                        pass
        case _:
            pass


def _names_of(target: ast.expr) -> list[str]:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return [one.id if isinstance(one, ast.Name) else "" for one in parts]


def _of_cases(
    targets: list[str], cases: ast.expr, names: set[str], known: frozenset[str]
) -> Iterator[ast.expr]:
    for case in cases.elts if isinstance(cases, ast.List | ast.Tuple) else []:
        is_group = isinstance(case, ast.Tuple | ast.List) and len(targets) > 1
        parts = case.elts if is_group and isinstance(case, ast.Tuple | ast.List) else [case]
        for target, part in zip(targets, parts, strict=False):
            yield from _equal(part, known) if target in names else ()
