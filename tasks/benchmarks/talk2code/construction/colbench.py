"""ColBench's backend tasks: a description, a Python function, and calls of the function.

Source: Zhou et al. 2025.
"""

import ast
import re
from dataclasses import dataclass


class NoTask(ValueError):
    """Error for a row that ColBench's method cannot test. `reason` is machine-readable."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class ColBenchTask:
    """Task with its test cases as separate texts."""

    problem: str
    entry_point: str
    cases: tuple[str, ...]


def read_task(description: str, ground_truth: str, calls: tuple[str, ...]) -> ColBenchTask:
    """Convert a row to a task.

    Each case contains the ground truth as a local function and compares its result with the
    candidate's.

    Args:
        description: statement of the task.
        ground_truth: reference program.
        calls: expressions that call the function.

    Raises:
        SyntaxError: one of the texts is not valid Python.
        NoTask: the calls use no function of the ground truth, or a coroutine or class.
    """
    module = ast.parse(ground_truth.strip())
    names = [node.name for node in module.body if isinstance(node, ast.FunctionDef)]
    expressions = [ast.parse(call.strip(), mode="eval").body for call in calls]
    called_names = {
        node.id
        for expression in expressions
        for node in ast.walk(expression)
        if isinstance(node, ast.Name)
    }
    entry_point = next((name for name in reversed(names) if name in called_names), None)
    if entry_point is None:
        raise _unusable(module, names, called_names)
    signature = f"{entry_point}({ast.unparse(_function(module, entry_point).args)})"
    is_named = re.search(rf"(?<!\w){re.escape(entry_point)}(?!\w)", description)
    problem = (
        description.strip() if is_named else f"{description.strip()}\n\nSignature: `{signature}`"
    )
    return ColBenchTask(
        problem, entry_point, tuple(_case(module, expression) for expression in expressions)
    )


def _unusable(module: ast.Module, names: list[str], called_names: set[str]) -> NoTask:
    """Return the reason why the calls use no function that can be tested.

    ColBench compares the results of one function, and a coroutine has no result to compare.
    """
    for node in module.body:
        if isinstance(node, ast.AsyncFunctionDef) and node.name in called_names:
            return NoTask(
                "async_function",
                f"test cases call the coroutine {node.name}: its result is not a value to compare",
            )
        if isinstance(node, ast.ClassDef) and node.name in called_names:
            return NoTask(
                "class_under_test",
                f"test cases call the class {node.name} and no function of ground_truth",
            )
    return NoTask(
        "unreadable_tests",
        f"no test case calls a function of ground_truth ({', '.join(names) or 'it has none'})",
    )


def _function(module: ast.Module, name: str) -> ast.FunctionDef:
    return next(
        node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == name
    )


def _case(module: ast.Module, call: ast.expr) -> str:
    """Return a test case; the ground truth is local and changes no name of the candidate."""
    no_arguments = ast.arguments(
        posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    body = [*module.body, ast.Return(value=call)]
    function = ast.FunctionDef(
        name="_expected", args=no_arguments, body=body, decorator_list=[], returns=None
    )
    definition = ast.unparse(
        ast.fix_missing_locations(ast.Module(body=[function], type_ignores=[]))
    )
    return f"{definition}\nassert {ast.unparse(call)} == _expected()"
