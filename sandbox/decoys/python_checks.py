"""Search for the checks in a Python test's text, and for possible alterations of them.

Checks are assertions (`assert`, `if ...: raise`, and those of unittest, numpy, pandas and mocks),
expected exceptions, expected values in variables and in lists of cases, examples in doctest's form,
and Python text passed to another interpreter.
"""

import ast
import random
from dataclasses import replace

from sandbox.decoys.decisive import decisive_nodes
from sandbox.decoys.edits import Edit, Kind, Reach, altered_examples, edited, line_with
from sandbox.decoys.expected import SETTINGS, Expected, hidden_source, other_source
from sandbox.decoys.python_syntax import (
    OF_ONE,
    OPPOSITES,
    RAISING,
    STRICT,
    UNRELATED,
    Text,
    assigned,
    bound_by_tests,
    checked,
    constructors,
    expressions,
    filled,
    is_tolerance,
    last_name,
    may_leave,
    names,
    operands_of,
    says_failure,
)
from sandbox.judging.runners.programs import parse

_QUIET = ("subTest", "open", "patch", "object", "dict", "TemporaryDirectory", "catch_warnings")
_FIRST_CASES, _MOST_CONSTANTS = 3, 6


def edits_of(text: str, draw: random.Random) -> list[Edit]:
    """Return the possible alterations of a text's checks, in the text's order.

    The list is empty if the text is not Python.

    Args:
        text: text of the tests.
        draw: source of random choices: new constants, and the constant to alter if there are
            several.
    """
    try:
        tree = parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    edits = sorted(_Checks(Text(text), tree, draw).edits, key=lambda edit: (edit.start, edit.end))
    return [replace(edit, check=line_with(text, edit)) for edit in edits]


class _Checks:
    def __init__(self, text: Text, tree: ast.Module, draw: random.Random) -> None:
        self._text, self._draw = text, draw
        self._expected = Expected(frozenset(bound_by_tests(tree)))
        self._compared = {name for check in checked(tree) for name in names(check)}
        self._decisive = decisive_nodes(tree, frozenset(constructors(tree)))
        self._helpers = self._expected.of_tests | set(assigned(tree))
        self.edits: list[Edit] = []
        self._visit_all(tree.body, (), "certain")

    def _visit_all(self, body: list[ast.stmt], scope: tuple[str, ...], reach: Reach) -> None:
        for statement in body:
            self._visit(statement, scope, reach)
            reach = "maybe" if may_leave(statement) else reach

    def _visit(self, node: ast.stmt, scope: tuple[str, ...], reach: Reach) -> None:
        match node:
            case ast.Assert():
                self._truth(node.test, scope, reach)
            case (
                ast.Expr(value=ast.Call() as call)
                | ast.Expr(value=ast.Await(value=ast.Call() as call))
            ):
                self._call(call, scope, reach)
            case ast.If() if node.body and isinstance(node.body[0], ast.Raise):
                self._truth(node.test, scope, reach, is_turned=True)
            case ast.Match():
                self._patterns(node, scope, _within(reach))
            case ast.Assign() | ast.AnnAssign() if node.value is not None and self._is_compared(
                node
            ):
                self._constants(self._expected.of(node.value), scope, _within(reach))
            case ast.Try():
                self._handlers(node, scope, reach)
            case ast.With() | ast.AsyncWith():
                self._raising_context(node, scope, reach)
            case ast.For() | ast.AsyncFor():
                self._cases(node.target, node.iter, scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._parameters(node, (*scope, node.name))
            case _:
                pass
        self._texts_within(node, scope, reach)
        self._below(node, scope, reach)

    def _below(self, node: ast.stmt, scope: tuple[str, ...], reach: Reach) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                is_test = node.name == "check" or node.name.startswith("test")
                self._visit_all(node.body, (*scope, node.name), reach if is_test else "maybe")
            case ast.ClassDef():
                self._visit_all(node.body, (*scope, node.name), reach)
            case ast.With() | ast.AsyncWith():
                is_quiet = all(last_name(item.context_expr) in _QUIET for item in node.items)
                self._visit_all(
                    node.body, scope, "held" if reach == "certain" and not is_quiet else reach
                )
            case ast.Try():
                handled = (statement for handler in node.handlers for statement in handler.body)
                self._visit_all([*node.body, *node.orelse, *handled], scope, "maybe")
                self._visit_all(node.finalbody, scope, reach)
            case ast.For() | ast.AsyncFor() | ast.While() | ast.If():
                self._visit_all([*node.body, *node.orelse], scope, "maybe")
            case _:
                pass

    def _truth(
        self, node: ast.expr, scope: tuple[str, ...], reach: Reach, *, is_turned: bool = False
    ) -> None:
        """Add alterations of an asserted expression: other constants, another type, its negation.

        Args:
            node: asserted expression.
            scope: names of the surrounding functions and classes.
            reach: how certain it is that the check is executed.
            is_turned: True if the check fails when the expression is true.
        """
        if isinstance(node, ast.Constant):
            return  # `assert False` means that an exception was expected, see `_handlers`.
        negated = (
            node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else None
        )
        self._expected.is_turned = is_turned is (negated is None)
        self._constants(self._expected.of(node), scope, reach, self._probe(node), node)
        self._types(node, scope, reach)
        other = f"not ({self._text.of(node)})" if negated is None else f"({self._text.of(negated)})"
        self._add(node, other, "negation", scope, reach)
        self._expected.is_turned = False

    def _types(self, node: ast.expr, scope: tuple[str, ...], reach: Reach) -> None:
        """Add alterations that expect another type."""
        for call in ast.walk(node):
            if (
                isinstance(call, ast.Call)
                and last_name(call) in ("isinstance", "assertIsInstance")
                and len(call.args) > 1
            ):
                self._add(call.args[1], "memoryview", "constant", scope, reach, "", node)

    def _patterns(self, node: ast.Match, scope: tuple[str, ...], reach: Reach) -> None:
        values = (
            part.value
            for case in node.cases
            for part in ast.walk(case.pattern)
            if isinstance(part, ast.MatchValue)
        )
        self._constants(
            [constant for value in values for constant in self._expected.of(value)],
            scope,
            reach,
            hides=False,
        )

    def _call(self, call: ast.Call, scope: tuple[str, ...], reach: Reach) -> None:
        name = last_name(call)
        if name in RAISING and len(call.args) > 1:
            self._exception(call.args[0], scope, reach)
        elif (
            isinstance(call.func, ast.Name)
            and name in self._helpers
            and not name.startswith("assert")
        ):
            expected = [
                constant for argument in call.args for constant in self._expected.of(argument)
            ]
            self._constants(expected, scope, _within(reach), "", call)
        elif name.startswith("assert") and name not in RAISING:
            operands = (
                call.args[: 1 if name in OF_ONE else 2]
                if name.startswith("assertT") or name[6:7].isupper()
                else call.args
            )
            values = [
                *operands,
                *(constant.value for constant in call.keywords if constant.arg not in SETTINGS),
            ]
            probe = (
                self._text.type_probe(*operands)
                if name in ("assertEqual", "assertIs") and len(operands) == 2
                else ""
            )
            values = [] if "Not" in name else values
            expected = [constant for value in values for constant in self._expected.of(value)]
            self._constants(expected, scope, reach, probe, call)
            self._types(call, scope, reach)
            if (
                name in OPPOSITES
                and isinstance(call.func, ast.Attribute)
                and not any(isinstance(a, ast.Starred) for a in call.args)
            ):
                _, end = self._text.span(call.func)
                place, span = (end - len(name), end), self._text.span(call)
                strict = name in STRICT
                self._put(
                    *place, OPPOSITES[name], "negation", scope, reach, "", span, is_strict=strict
                )

    def _handlers(self, node: ast.Try, scope: tuple[str, ...], reach: Reach) -> None:
        """Add an alteration that expects another exception, if the test fails without an exception.

        With several handlers nothing is altered, because another handler could catch the exception.
        """
        if any(says_failure(statement) for statement in (*node.body, *node.orelse)):
            handler = node.handlers[0] if len(node.handlers) == 1 else None
            if handler is not None and handler.type is not None:
                self._exception(handler.type, scope, reach)

    def _raising_context(
        self, node: ast.With | ast.AsyncWith, scope: tuple[str, ...], reach: Reach
    ) -> None:
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and last_name(call) in RAISING and call.args:
                self._exception(call.args[0], scope, reach)

    def _exception(self, node: ast.expr, scope: tuple[str, ...], reach: Reach) -> None:
        other = next(name for name in UNRELATED if name != last_name(node))
        self._add(node, other, "negation", scope, reach)

    def _cases(self, target: ast.expr, cases: ast.expr, scope: tuple[str, ...]) -> None:
        """Add alterations of expected values in a literal list of cases for a loop."""
        places = (
            [target]
            if isinstance(target, ast.Name)
            else target.elts
            if isinstance(target, ast.Tuple)
            else []
        )
        if isinstance(cases, ast.Dict) or not isinstance(cases, ast.List | ast.Tuple):
            return
        expected_positions = [
            n
            for n, place in enumerate(places)
            if isinstance(place, ast.Name) and place.id in self._compared
        ]
        for case in cases.elts[:_FIRST_CASES]:
            parts = (
                case.elts if isinstance(case, ast.Tuple | ast.List) and len(places) > 1 else [case]
            )
            self._constants(
                [
                    constant
                    for n in expected_positions
                    if n < len(parts)
                    for constant in self._expected.of(parts[n])
                ],
                scope,
                "held",
            )

    def _parameters(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: tuple[str, ...]
    ) -> None:
        """Add alterations of expected values in a function's defaults or `parametrize` cases."""
        named = node.args.args[len(node.args.args) - len(node.args.defaults) :]
        for parameter, default in zip(named, node.args.defaults, strict=True):
            if parameter.arg in self._compared:
                self._constants(self._expected.of(default), scope, "held")
        for mark in node.decorator_list:
            if (
                isinstance(mark, ast.Call)
                and last_name(mark) == "parametrize"
                and len(mark.args) > 1
            ):
                names, cases = mark.args[:2]
                if isinstance(names, ast.Constant) and isinstance(names.value, str):
                    targets: list[ast.expr] = [
                        ast.Name(name.strip()) for name in names.value.split(",")
                    ]
                    self._cases(
                        ast.Tuple(targets) if len(targets) > 1 else targets[0], cases, scope
                    )

    def _texts_within(self, node: ast.stmt, scope: tuple[str, ...], reach: Reach) -> None:
        """Add alterations of Python text passed to another interpreter, and of doctest examples."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        for part in expressions(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                examples = altered_examples(part.value, self._draw)
                altered, strict = (
                    (examples, True) if examples else _altered_program(part.value, self._draw)
                )
                if altered:
                    span, inner = self._text.span(part), _within(reach)
                    self._put(
                        *span, repr(altered), "constant", scope, inner, "", span, is_strict=strict
                    )

    def _constants(
        self,
        nodes: list[tuple[ast.Constant | ast.expr, bool]],
        scope: tuple[str, ...],
        reach: Reach,
        probe: str = "",
        whole: ast.expr | None = None,
        *,
        hides: bool = True,
    ) -> None:
        """Add edits that replace each constant by another one, or some if there are many."""
        for node, _ in nodes if hides else ():
            hidden = hidden_source(node, self._draw) if isinstance(node, ast.Constant) else ""
            if hidden:
                span = self._text.span(node)
                self._put(*span, hidden, "hidden", scope, reach, "", span)
        likely = [(node, below) for node, below in nodes if not is_tolerance(node)] or nodes
        for node, below in self._draw.sample(likely, min(len(likely), _MOST_CONSTANTS)):
            own = self._text.of(node)
            other = (
                other_source(node, self._draw, below=below, like=own)
                if isinstance(node, ast.Constant)
                else filled(node)
            )
            is_operand = probe and node in (
                whole.args if isinstance(whole, ast.Call) else operands_of(whole)
            )
            self._add(node, other, "constant", scope, reach, probe if is_operand else "", whole)

    def _probe(self, node: ast.expr) -> str:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            return self._text.type_probe(node.left, node.comparators[0])
        return ""

    def _is_compared(self, node: ast.Assign | ast.AnnAssign) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(
            isinstance(target, ast.Name) and target.id in self._compared for target in targets
        )

    def _add(
        self,
        node: ast.expr,
        source: str,
        kind: Kind,
        scope: tuple[str, ...],
        reach: Reach,
        probe: str = "",
        whole: ast.expr | None = None,
    ) -> None:
        start, end = self._text.span(node)
        if isinstance(whole, ast.Call) and probe:
            probe = f"assert {probe}"
        span = self._text.span(node if whole is None else whole)
        is_strict = kind == "negation" or id(node) in self._decisive
        self._put(start, end, source, kind, scope, reach, probe, span, is_strict=is_strict)

    def _put(
        self,
        start: int,
        end: int,
        source: str,
        kind: Kind,
        scope: tuple[str, ...],
        reach: Reach,
        probe: str,
        span: tuple[int, int],
        *,
        is_strict: bool = True,
    ) -> None:
        self.edits.append(
            Edit(start, end, source, kind, ".".join(scope), reach, "", span, probe, is_strict)
        )


def _within(reach: Reach) -> Reach:
    """Return the reach of a check inside a `with`, given the reach of the `with`."""
    return "maybe" if reach == "maybe" else "held"


def _altered_program(text: str, draw: random.Random) -> tuple[str, bool]:
    """Alter the first check of a Python text, and return the text and whether the edit is strict.

    A strict edit is preferred, even if its check is not the first.
    """
    edits = edits_of(text, draw) if "assert" in text else []
    if not edits:
        return "", False
    chosen = min(
        edits, key=lambda edit: (edit.kind == "hidden", not edit.is_strict, edit.kind != "constant")
    )
    return edited(text, [chosen]), chosen.is_strict
