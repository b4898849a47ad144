"""Search for decisive constants in checks.

A constant is decisive if the check holds for only one value of the compared operand (equality,
distance, membership of a distinctive text): if the constant is altered, a value that passed the
check fails it. Other constants prove nothing: `f(1) in [4711, 5]` holds for two values, and
`'error' in text or 'invalid' in text` for many. If one of those constants is altered, an honest
answer may still pass although the reference fails.
"""

import ast
import builtins
import re
from collections.abc import Iterator

from sandbox.decoys.python_syntax import last_name, root

_SHORTEST_TEXT = 4
"""Minimum length of a text that, once altered, is not part of another text by chance."""
_LEAST_SHIFT = 1049
"""Smallest amount by which `expected.other_source` changes a number, besides four times that
number's absolute value.
"""
_PAIRS = ("isclose", "allclose", "array_equal", "array_equiv", "equals", "eq", "is_")
"""Functions and methods that compare two values for equality."""
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
"""Pattern of plain regular expressions. If their letters are shifted, they match none of the texts
that they matched before.
"""
_ORDERS = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE))
_EQUALITIES = ("Equal", "Equals", "Is", "allclose", "equal", "almost_equal", "with")
"""Last parts of the names of assertions that compare for equality: `assertEqual`,
`assert_frame_equal`, `assert_called_with`."""


def decisive(
    node: ast.expr, library_names: frozenset[str], *, is_true: bool = True
) -> Iterator[ast.expr]:
    """Yield the constants and variables that decide whether an expression is true (or false).

    Args:
        node: expression of a check.
        library_names: names of libraries' modules, and of classes that the tests define. Other
            names may be code under test.
        is_true: True if the check holds when the expression is true.
    """
    match node:
        case ast.UnaryOp(op=ast.Not()):
            yield from decisive(node.operand, library_names, is_true=not is_true)
        case ast.BoolOp() if isinstance(node.op, ast.And) is is_true:
            for value in node.values:
                yield from decisive(value, library_names, is_true=is_true)
        case ast.Compare() if is_true or len(node.ops) == 1:
            yield from _of_comparison(node, library_names, is_true=is_true)
        case ast.Call() if is_true:
            yield from _of_call(node, library_names)
        case _:
            pass


def decisive_of_assertion(call: ast.Call, library_names: frozenset[str]) -> Iterator[ast.expr]:
    """Yield the constants and variables that decide an assertion's call.

    The assertion is one of unittest, numpy, pandas or a mock.
    """
    name, args = last_name(call), call.args
    if name in ("assertTrue", "assertFalse"):
        yield from decisive(args[0], library_names, is_true=name == "assertTrue") if args else ()
    elif name == "assertIn" and len(args) > 1:
        yield from _of_membership(args[0], args[1], library_names)
    elif name in ("assertIsInstance",):
        yield from args[1:2]
    elif name.endswith(_EQUALITIES) and "Not" not in name:
        keywords = [
            keyword.value
            for keyword in call.keywords
            if name.endswith("with") or keyword.arg in ("first", "second")
        ]
        operands = [*(args if name.endswith("with") else args[:2]), *keywords]
        for operand in operands:
            yield from _equal(operand, library_names)


def _of_comparison(
    node: ast.Compare, library_names: frozenset[str], *, is_true: bool
) -> Iterator[ast.expr]:
    sides = [node.left, *node.comparators]
    for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
        if isinstance(op, (ast.Eq, ast.Is) if is_true else (ast.NotEq, ast.IsNot)):
            yield from _equal(left, library_names)
            yield from _equal(right, library_names)
        elif is_true and isinstance(op, ast.In):
            yield from _of_membership(left, right, library_names)
        elif is_true and isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            near = left if isinstance(op, ast.Lt | ast.LtE) else right
            yield from _of_distance(near, library_names)
    if is_true:
        yield from _of_range(node)


def _of_membership(
    member: ast.expr, container: ast.expr, library_names: frozenset[str]
) -> Iterator[ast.expr]:
    """Yield the constants of the member.

    A short text is omitted, because it may be part of a long text by chance.
    """
    if isinstance(container, ast.List | ast.Tuple | ast.Set) and len(container.elts) == 1:
        yield from _equal(member, library_names)
        yield from _equal(container.elts[0], library_names)
    if isinstance(container, (*_MANY, ast.Constant)):
        return
    for constant in _equal(member, library_names):
        value = constant.value if isinstance(constant, ast.Constant) else None
        if not isinstance(value, str | bytes) or len(value) >= _SHORTEST_TEXT:
            yield constant


def _of_distance(node: ast.expr, library_names: frozenset[str]) -> Iterator[ast.expr]:
    """Yield the constants of `abs(x - 4.5)`."""
    if isinstance(node, ast.Call) and last_name(node) in ("abs", "fabs") and len(node.args) == 1:
        inner = node.args[0]
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):
            yield from _equal(inner.left, library_names)
            yield from _equal(inner.right, library_names)


def _of_range(node: ast.Compare) -> Iterator[ast.expr]:
    """Yield the bounds of `4710 < x < 4712`, if they are close.

    If one bound is moved past the other, no number lies between them.
    """
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


def _of_call(node: ast.Call, library_names: frozenset[str]) -> Iterator[ast.expr]:
    name, args = last_name(node), node.args
    if name == "all" and len(args) == 1:
        yield from _of_all(args[0], library_names)
    elif name == "bool" and len(args) == 1:
        yield from decisive(args[0], library_names)
    elif name == "isinstance" and len(args) == 2:
        yield args[1]
    elif name in ("startswith", "endswith") and len(args) == 1:
        yield from (operand for operand in args if isinstance(operand, ast.Constant | ast.Name))
    elif name in _PAIRS:
        receiver = (
            [node.func.value] if name == "equals" and isinstance(node.func, ast.Attribute) else []
        )
        for operand in [*receiver, *args[:2]]:
            yield from _equal(operand, library_names)
    elif name in _FILE_TESTS and _is_literal(node, library_names):
        yield from (operand for operand in ast.walk(node) if isinstance(operand, ast.Constant))
    elif (
        name == "fullmatch"
        and args
        and isinstance(args[0], ast.Constant)
        and isinstance(args[0].value, str)
    ):
        yield from args[:1] if _PLAIN_PATTERN.fullmatch(args[0].value) else []


def _of_all(node: ast.expr, library_names: frozenset[str]) -> Iterator[ast.expr]:
    """Yield the constants of `all(x == y for x, y in zip(f(3), [1, 2]))`."""
    if isinstance(node, ast.List | ast.Tuple):
        for constant in node.elts:
            yield from decisive(constant, library_names)
    elif (
        isinstance(node, ast.GeneratorExp | ast.ListComp)
        and len(node.generators) == 1
        and not node.generators[0].ifs
    ):
        constants = list(decisive(node.elt, library_names))
        yield from constants
        names = {constant.id for constant in constants if isinstance(constant, ast.Name)}
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
                yield from _equal(source, library_names)


def _equal(node: ast.expr, library_names: frozenset[str]) -> Iterator[ast.expr]:
    """Yield the constants and names of an operand that another operand must equal."""
    match node:
        case ast.Constant() | ast.Name():
            yield node
        case ast.List() | ast.Tuple() | ast.Set():
            yield from [node] if not node.elts else []
            for part in node.elts:
                yield from _equal(part, library_names)
        case ast.Dict():
            yield from [node] if not node.keys else []
            for part in [*filter(None, node.keys), *node.values]:
                yield from _equal(part, library_names)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            yield from _equal(node.operand, library_names)
        case (
            ast.Starred(value=ast.Name() as value)
            | ast.Subscript(value=ast.expr() as value, slice=ast.Constant())
        ):
            yield from _equal(value, library_names)
        case ast.Call(func=ast.Attribute(attr="index"), args=[ast.Constant() as member]):
            yield member
        case ast.BinOp() | ast.Call() if _is_literal(node, library_names):
            yield from (part for part in ast.walk(node) if isinstance(part, ast.Constant))
        case _:
            pass


def _is_literal(node: ast.AST, library_names: frozenset[str]) -> bool:
    """Return True if an expression contains no code under test and no variable.

    Such expressions are constants, containers and constructors.
    """
    match node:
        case ast.Constant():
            return True
        case ast.Call():
            arguments = [*node.args, *(part.value for part in node.keywords)]
            is_known = (first := root(node.func)) in library_names or hasattr(builtins, first)
            return is_known and all(_is_literal(part, library_names) for part in arguments)
        case ast.List() | ast.Tuple() | ast.Set() | ast.Dict() | ast.UnaryOp() | ast.BinOp():
            parts = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
            return all(_is_literal(part, library_names) for part in parts)
        case _:
            return False


def decisive_nodes(tree: ast.Module, library_names: frozenset[str]) -> frozenset[int]:
    """Return the `id` of each syntax node of a test's text that decides a check.

    A node can decide a check directly or as the value of a variable.
    """
    leaves = [leaf for node in ast.walk(tree) for leaf in _of_statement(node, library_names)]
    names = _decisive_names(tree, leaves)
    values = [leaf for node in ast.walk(tree) for leaf in _of_values(node, names, library_names)]
    return frozenset(map(id, [*leaves, *values]))


def _of_statement(node: ast.AST, library_names: frozenset[str]) -> Iterator[ast.expr]:
    match node:
        case ast.Assert():
            yield from decisive(node.test, library_names)
        case (
            ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call))
        ):
            if last_name(call).startswith("assert"):
                yield from decisive_of_assertion(call, library_names)
            else:
                constants = [part for part in call.args if isinstance(part, ast.Constant)]
                has_result = any(isinstance(part, ast.Call) for part in call.args)
                # Two constants may be alternatives, of which one is enough.
                yield from constants if has_result and len(constants) == 1 else []
        case ast.If() if node.body and isinstance(node.body[0], ast.Raise):
            yield from decisive(node.test, library_names, is_true=False)
        case ast.Match():
            patterns = [case.pattern for case in node.cases if not _is_wildcard(case.pattern)]
            if len(patterns) == 1 and not any(
                isinstance(part, ast.MatchOr) for part in ast.walk(patterns[0])
            ):
                yield from (
                    part.value for part in ast.walk(patterns[0]) if isinstance(part, ast.MatchValue)
                )
        case _:
            pass


def _is_wildcard(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def _decisive_names(tree: ast.Module, leaves: list[ast.expr]) -> set[str]:
    """Return the variables that are used only to decide checks and in messages."""
    messages = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and node.msg
        for part in ast.walk(node.msg)
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


def _of_values(node: ast.AST, names: set[str], library_names: frozenset[str]) -> Iterator[ast.expr]:
    """Yield the constants that become the values of decisive variables."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) if name in names:
            yield from _equal(node.value, library_names)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name in names:
            yield from _equal(value, library_names)
        case ast.For() | ast.AsyncFor():
            yield from _of_cases(_names_of(node.target), node.iter, names, library_names)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            named = node.args.args[len(node.args.args) - len(node.args.defaults) :]
            for parameter, default in zip(named, node.args.defaults, strict=True):
                yield from _equal(default, library_names) if parameter.arg in names else ()
            for mark in node.decorator_list:
                match mark:
                    case ast.Call(args=[ast.Constant(value=str(listed)), cases, *_]) if (
                        last_name(mark) == "parametrize"
                    ):
                        yield from _of_cases(
                            [name.strip() for name in listed.split(",")],
                            cases,
                            names,
                            library_names,
                        )
                    case _:
                        pass
        case _:
            pass


def _names_of(target: ast.expr) -> list[str]:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return [part.id if isinstance(part, ast.Name) else "" for part in parts]


def _of_cases(
    targets: list[str], cases: ast.expr, names: set[str], library_names: frozenset[str]
) -> Iterator[ast.expr]:
    for case in cases.elts if isinstance(cases, ast.List | ast.Tuple) else []:
        is_group = isinstance(case, ast.Tuple | ast.List) and len(targets) > 1
        parts = case.elts if is_group and isinstance(case, ast.Tuple | ast.List) else [case]
        for target, part in zip(targets, parts, strict=False):
            yield from _equal(part, library_names) if target in names else ()
