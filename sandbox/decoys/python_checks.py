"""Finds the checks in a Python test's text, and how each could expect something else.

Checks are assertions (`assert`, `if ...: raise`, unittest's, numpy's, pandas' and mocks'), expected exceptions, expected values
in variables and in lists of cases, examples in doctest's form, and Python text handed to another interpreter.
"""

import ast
import builtins
import random
from collections.abc import Iterator
from dataclasses import replace

from sandbox.decoys.edits import Edit, line_with
from sandbox.decoys.python_text import Text
from sandbox.decoys.values import other_source
from sandbox.judging.python_syntax import parse

_OPPOSITES = {
    "assertTrue": "assertFalse",
    "assertEqual": "assertNotEqual",
    "assertIn": "assertNotIn",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
    "assertAlmostEqual": "assertNotAlmostEqual",
    "assertRegex": "assertNotRegex",
    "assert_called": "assert_not_called",
}
_OPPOSITES |= {right: left for left, right in _OPPOSITES.items()}
_OPPOSITES |= {"assertGreater": "assertLessEqual", "assertLessEqual": "assertGreater"}
_OPPOSITES |= {"assertLess": "assertGreaterEqual", "assertGreaterEqual": "assertLess"}
_OPPOSITES |= {
    "assert_called_once": "assert_not_called",
    "assertListEqual": "assertNotEqual",
    "assertDictEqual": "assertNotEqual",
}
_OPPOSITES |= {"assertTupleEqual": "assertNotEqual", "assertSetEqual": "assertNotEqual", "assertMultiLineEqual": "assertNotEqual"}
_OF_ONE = ("assertTrue", "assertFalse", "assertIsNone", "assertIsNotNone")
"""Assertions with one operand; a further argument is a message. Other assertions of unittest have two."""
_RAISING = ("assertRaises", "assertRaisesRegex", "raises", "assertWarns")
_UNRELATED = ("StopAsyncIteration", "BlockingIOError", "ChildProcessError")
"""Exceptions that code under test does not raise."""
_SETTINGS = {"msg", "places", "delta", "rtol", "atol", "rel_tol", "abs_tol", "decimal", "err_msg", "rel", "abs", "check_dtype"}
"""Keywords of assertions that are no expectation."""
_OF_VALUES = frozenset(name for kind in (str, bytes, list, dict, set, tuple) for name in dir(kind) if not name.startswith("_"))
_OF_VALUES |= {"equals", "item", "tolist", "all", "any"}
"""Methods of results: their arguments are expectations, where arguments of code under test are its input."""
_PLAIN = {int: "int", float: "float", str: "str", bool: "bool", bytes: "bytes"}
_QUIET_CONTEXTS = ("subTest", "open", "patch", "object", "dict", "TemporaryDirectory", "catch_warnings")
_FIRST_CASES = 3


def edits_of(text: str, draw: random.Random) -> list[Edit]:
    """Return how the checks of a text may be altered, in the text's order; none where it is not Python.

    Args:
        draw: chooses other constants, and which of several constants of a check is altered.
    """
    try:
        tree = parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = sorted(_Checks(Text(text), tree, draw).found, key=lambda edit: (edit.start, edit.end))
    return [replace(edit, check=line_with(text, edit)) for edit in found]


class _Checks:
    def __init__(self, text: Text, tree: ast.Module, draw: random.Random) -> None:
        self._text, self._draw = text, draw
        self._of_tests = set(_bound_by_tests(tree))
        self._compared = {name for check in _checked(tree) for name in _names(check)}
        self.found: list[Edit] = []
        self._visit_all(tree.body, (), True)

    def _visit_all(self, body: list[ast.stmt], scope: tuple[str, ...], is_certain: bool) -> None:
        for statement in body:
            self._visit(statement, scope, is_certain)

    def _visit(self, node: ast.stmt, scope: tuple[str, ...], is_certain: bool) -> None:
        match node:
            case ast.Assert():
                self._truth(node.test, node.test, scope, is_certain)
            case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call)):
                self._call(call, scope, is_certain)
            case ast.If() if node.body and isinstance(node.body[0], ast.Raise):
                self._truth(node.test, node.test, scope, is_certain)
            case ast.Assign() | ast.AnnAssign() if node.value is not None and self._is_compared(node):
                self._constant(self._expected(node.value), scope, False)
            case ast.Try():
                self._handlers(node, scope, is_certain)
            case ast.With() | ast.AsyncWith():
                self._raising_context(node, scope, is_certain)
            case ast.For() | ast.AsyncFor():
                self._cases(node.target, node.iter, scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._parameters(node, (*scope, node.name))
            case _:
                pass
        self._texts_within(node, scope)
        self._below(node, scope, is_certain)

    def _below(self, node: ast.stmt, scope: tuple[str, ...], is_certain: bool) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                is_test = is_certain and (node.name == "check" or node.name.startswith("test"))
                self._visit_all(node.body, (*scope, node.name), is_test)
            case ast.ClassDef():
                self._visit_all(node.body, (*scope, node.name), is_certain)
            case ast.With() | ast.AsyncWith():
                is_quiet = all(_last_name(item.context_expr) in _QUIET_CONTEXTS for item in node.items)
                self._visit_all(node.body, scope, is_certain and is_quiet)
            case ast.Try():
                self._visit_all([*node.body, *node.orelse], scope, False)
                self._visit_all(node.finalbody, scope, is_certain)
            case ast.For() | ast.AsyncFor() | ast.While() | ast.If():
                self._visit_all([*node.body, *node.orelse], scope, False)
            case _:
                pass

    def _truth(self, whole: ast.expr, node: ast.expr, scope: tuple[str, ...], is_certain: bool) -> None:
        """Alter what is asserted: the other truth, and other constants."""
        if isinstance(node, ast.Constant):
            return  # `assert False` where an exception was expected: see `_handlers`
        probe = self._probe(node)
        self._constant(self._expected(node), scope, is_certain, probe, whole)
        negated = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else None
        source = self._text.of(node)
        self._add(
            node, f"({self._text.of(negated)})" if negated is not None else f"not ({source})", "negation", scope, is_certain
        )

    def _call(self, call: ast.Call, scope: tuple[str, ...], is_certain: bool) -> None:
        name = _last_name(call)
        if name in _RAISING and len(call.args) > 1:
            self._exception(call.args[0], scope, is_certain)
        elif name.startswith("assert") and name not in _RAISING:
            operands = (
                call.args[: 1 if name in _OF_ONE else 2] if name.startswith("assertT") or name[6:7].isupper() else call.args
            )
            values = [*operands, *(one.value for one in call.keywords if one.arg not in _SETTINGS)]
            probe = self._probe_pair(operands) if name in ("assertEqual", "assertIs") and len(operands) == 2 else ""
            values = [] if "Not" in name else values
            self._constant([one for value in values for one in self._expected(value)], scope, is_certain, probe, call)
            if (
                name in _OPPOSITES
                and isinstance(call.func, ast.Attribute)
                and not any(isinstance(a, ast.Starred) for a in call.args)
            ):
                _, end = self._text.span(call.func)
                self._put(end - len(name), end, _OPPOSITES[name], "negation", scope, is_certain)

    def _handlers(self, node: ast.Try, scope: tuple[str, ...], is_certain: bool) -> None:
        """Expect another exception where a statement of the body says that none came."""
        if any(_says_failure(statement) for statement in (*node.body, *node.orelse)):
            for handler in node.handlers:
                if handler.type is not None:
                    self._exception(handler.type, scope, is_certain)

    def _raising_context(self, node: ast.With | ast.AsyncWith, scope: tuple[str, ...], is_certain: bool) -> None:
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and _last_name(call) in _RAISING and call.args:
                self._exception(call.args[0], scope, is_certain)

    def _exception(self, node: ast.expr, scope: tuple[str, ...], is_certain: bool) -> None:
        other = next(name for name in _UNRELATED if name != _last_name(node))
        self._add(node, other, "negation", scope, is_certain)

    def _cases(self, target: ast.expr, cases: ast.expr, scope: tuple[str, ...]) -> None:
        """Alter an expected value in a literal list of cases that a loop goes through."""
        places = [target] if isinstance(target, ast.Name) else target.elts if isinstance(target, ast.Tuple) else []
        if isinstance(cases, ast.Dict) or not isinstance(cases, ast.List | ast.Tuple):
            return
        wanted = [n for n, place in enumerate(places) if isinstance(place, ast.Name) and place.id in self._compared]
        for case in cases.elts[:_FIRST_CASES]:
            parts = case.elts if isinstance(case, ast.Tuple | ast.List) and len(places) > 1 else [case]
            self._constant([one for n in wanted if n < len(parts) for one in self._expected(parts[n])], scope, False)

    def _parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: tuple[str, ...]) -> None:
        """Alter an expected value among the cases of `pytest.mark.parametrize`."""
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and _last_name(mark) == "parametrize" and len(mark.args) > 1:
                names, cases = mark.args[:2]
                if isinstance(names, ast.Constant) and isinstance(names.value, str):
                    targets: list[ast.expr] = [ast.Name(name.strip()) for name in names.value.split(",")]
                    self._cases(ast.Tuple(targets) if len(targets) > 1 else targets[0], cases, scope)

    def _texts_within(self, node: ast.stmt, scope: tuple[str, ...]) -> None:
        """Alter Python that another interpreter is given, and examples in doctest's form."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        for one in _expressions(node):
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                altered = _altered_examples(one.value, self._draw) or _altered_program(one.value, self._draw)
                if altered is not None:
                    self._add(one, repr(altered), "constant", scope, False)

    def _expected(self, node: ast.expr, *, below: bool = False) -> list[tuple[ast.Constant | ast.expr, bool]]:
        """List the constants that code under test is not given, each with whether a smaller one misses the check."""
        match node:
            case ast.Constant() if not isinstance(node.value, type(...)) and node.value is not None:
                return [(node, below)]
            case ast.List(elts=[]) | ast.Dict(keys=[]) | ast.Tuple(elts=[]):
                return [(node, below)]
            case ast.JoinedStr() | ast.Subscript() | ast.Lambda():
                return self._expected(node.value) if isinstance(node, ast.Subscript) else []
            case ast.Compare():
                return self._of_comparison(node)
            case ast.Call():
                return self._of_call(node)
            case _:
                inner = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr | ast.comprehension))
                parts = [part.iter if isinstance(part, ast.comprehension) else part for part in inner]
                return [one for part in parts for one in self._expected(part, below=below)]

    def _of_comparison(self, node: ast.Compare) -> list[tuple[ast.Constant | ast.expr, bool]]:
        """Bounds are moved past what they bound. A value that differs from one constant differs from others, too."""
        sides = [node.left, *node.comparators]
        kinds = [*node.ops, *node.ops[-1:]]
        found: list[tuple[ast.Constant | ast.expr, bool]] = []
        for n, side in enumerate(sides):
            op = kinds[n] if n == 0 else node.ops[n - 1]
            if not isinstance(op, ast.NotEq | ast.NotIn | ast.IsNot):
                found += self._expected(side, below=isinstance(op, (ast.Gt, ast.GtE) if n == 0 else (ast.Lt, ast.LtE)))
        return found

    def _of_call(self, node: ast.Call) -> list[tuple[ast.Constant | ast.expr, bool]]:
        root = _root(node.func)
        is_method = isinstance(node.func, ast.Attribute) and root not in self._of_tests
        found = self._expected(node.func.value) if isinstance(node.func, ast.Attribute) and is_method else []
        if is_method and _last_name(node) not in _OF_VALUES:
            return found
        if not is_method and isinstance(node.func, ast.Name) and not (root in self._of_tests or hasattr(builtins, root)):
            return found
        given = [*node.args, *(one.value for one in node.keywords if one.arg not in _SETTINGS)]
        return found + [one for argument in given for one in self._expected(argument)]

    def _constant(
        self,
        nodes: list[tuple[ast.Constant | ast.expr, bool]],
        scope: tuple[str, ...],
        is_certain: bool,
        probe: str = "",
        whole: ast.expr | None = None,
    ) -> None:
        """Put another constant in the place of one of these."""
        likely = [(node, below) for node, below in nodes if not _is_tolerance(node)] or nodes
        if likely:
            node, below = self._draw.choice(likely)
            source = other_source(node, self._draw, below=below) if isinstance(node, ast.Constant) else _filled(node)
            self._add(node, source, "constant", scope, is_certain, probe, whole)

    def _probe(self, node: ast.expr) -> str:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            return self._probe_pair([node.left, node.comparators[0]])
        return ""

    def _probe_pair(self, pair: list[ast.expr]) -> str:
        for value, literal in (pair, pair[::-1]):
            kind = type(literal.value) if isinstance(literal, ast.Constant) else None
            if kind in _PLAIN and not isinstance(value, ast.Constant):
                return f"type({self._text.of(value)}) is {_PLAIN[kind]}"
        return ""

    def _is_compared(self, node: ast.Assign | ast.AnnAssign) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(one, ast.Name) and one.id in self._compared for one in targets) and not _has_call(node.value)

    def _add(
        self,
        node: ast.expr,
        source: str,
        kind: str,
        scope: tuple[str, ...],
        is_certain: bool,
        probe: str = "",
        whole: ast.expr | None = None,
    ) -> None:
        start, end = self._text.span(node)
        if whole is not None and isinstance(whole, ast.Call) and probe:
            probe = f"assert {probe}"
        span = self._text.span(whole) if whole is not None else (0, 0)
        self._put(start, end, source, kind, scope, is_certain, probe, span)

    def _put(
        self,
        start: int,
        end: int,
        source: str,
        kind: str,
        scope: tuple[str, ...],
        is_certain: bool,
        probe: str = "",
        span: tuple[int, int] = (0, 0),
    ) -> None:
        made = "negation" if kind == "negation" else "constant"
        self.found.append(Edit(start, end, source, made, ".".join(scope), is_certain, "", probe, span))


def _bound_by_tests(tree: ast.Module) -> Iterator[str]:
    """Yield the names of modules that the tests import, and of functions and classes that they define."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (item.asname or item.name.partition(".")[0] for item in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
    yield "self"


def _checked(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what checks look at, less what code under test is given."""
    for node in ast.walk(tree):
        match node:
            case ast.Assert():
                yield node.test
            case ast.Expr(value=ast.Call() as call) if _last_name(call).startswith("assert"):
                yield from call.args[:2]
            case ast.If() if node.body and isinstance(node.body[0], ast.Raise):
                yield node.test
            case _:
                pass


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names that are compared: those that no call is given, but for calls of built-ins and modules."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not hasattr(builtins, node.func.id):
        return
    else:
        for child in ast.iter_child_nodes(node):
            yield from _names(child)


def _says_failure(node: ast.stmt) -> bool:
    match node:
        case ast.Assert(test=ast.Constant(value=False | 0)) | ast.Raise():
            return True
        case ast.Expr(value=ast.Call() as call):
            return _last_name(call) == "fail"
        case _:
            return False


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Call():
            return _last_name(node.func)
        case ast.Attribute():
            return node.attr
        case ast.Name():
            return node.id
        case _:
            return ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _has_call(node: ast.AST | None) -> bool:
    return node is not None and any(isinstance(one, ast.Call) for one in ast.walk(node))


def _expressions(node: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions of a statement, less those of statements in it."""
    unseen = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt | ast.excepthandler)]
    while unseen:
        one = unseen.pop()
        if not isinstance(one, ast.JoinedStr):
            yield one
            unseen.extend(ast.iter_child_nodes(one))


def _is_tolerance(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < abs(node.value) < 0.01


def _filled(node: ast.expr) -> str:
    return {ast.List: "[1049]", ast.Tuple: "(1049,)"}.get(type(node), "{1049: 1049}")


def _altered_examples(text: str, draw: random.Random) -> str | None:
    """Alter the first literal that an example in doctest's form expects."""
    lines = text.split("\n")
    for n, line in enumerate(lines[:-1]):
        expected = lines[n + 1].strip()
        if line.strip().startswith((">>>", "...")) and expected and not expected.startswith((">>>", "...")):
            try:
                value = ast.parse(expected, mode="eval").body
            except (SyntaxError, ValueError):
                continue
            if isinstance(value, ast.Constant):
                return "\n".join([*lines[: n + 1], lines[n + 1].replace(expected, other_source(value, draw)), *lines[n + 2 :]])
    return None


def _altered_program(text: str, draw: random.Random) -> str | None:
    """Alter the first check of a text that is Python."""
    if "assert" not in text:
        return None
    edits = [edit for edit in edits_of(text, draw) if edit.kind == "constant"] or edits_of(text, draw)
    if not edits:
        return None
    content = text.encode("utf-8", "surrogatepass")
    return (content[: edits[0].start] + edits[0].replacement.encode() + content[edits[0].end :]).decode("utf-8", "surrogatepass")
