"""ColBench's backend tasks: a description, a function in Python, and calls whose results it decides (Zhou et al. 2025)."""

import ast
import re
from dataclasses import dataclass


class NoTask(ValueError):
    """A row that cannot be tested as ColBench tests its rows; `reason` is the machine-readable name."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class ColBenchTask:
    """A task with its cases, each a text of its own."""

    problem: str
    entry_point: str
    cases: tuple[str, ...]


def read_task(description: str, ground_truth: str, calls: tuple[str, ...]) -> ColBenchTask:
    """The task of a row. A case holds the function under a name of its own, and compares its result with the candidate's.

    Args:
        calls: expressions that call the function.

    Raises:
        SyntaxError: one of the texts is no Python.
        NoTask: no function of the ground truth is called, or a coroutine or a class is.
    """
    module = ast.parse(ground_truth.strip())
    names = [node.name for node in module.body if isinstance(node, ast.FunctionDef)]
    expressions = [ast.parse(call.strip(), mode="eval").body for call in calls]
    called = {
        node.id for one in expressions for node in ast.walk(one) if isinstance(node, ast.Name)
    }
    entry_point = next((name for name in reversed(names) if name in called), None)
    if entry_point is None:
        raise _unusable(module, names, called)
    signature = f"{entry_point}({ast.unparse(_function(module, entry_point).args)})"
    is_told = re.search(rf"(?<!\w){re.escape(entry_point)}(?!\w)", description)
    problem = (
        description.strip() if is_told else f"{description.strip()}\n\nSignature: `{signature}`"
    )
    return ColBenchTask(problem, entry_point, tuple(_case(module, one) for one in expressions))


def _unusable(module: ast.Module, names: list[str], called: set[str]) -> NoTask:
    """Return why no function is called: ColBench compares results, which a coroutine does not have, of one function."""
    for node in module.body:
        if isinstance(node, ast.AsyncFunctionDef) and node.name in called:
            return NoTask(
                "async_function",
                f"test cases call the coroutine {node.name}: its result is not a value to compare",
            )
        if isinstance(node, ast.ClassDef) and node.name in called:
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
    """The ground truth's definitions are local to a function, so that no name of the candidate's is touched."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    body = [*module.body, ast.Return(value=call)]
    wanted = ast.FunctionDef(
        name="_expected", args=nothing, body=body, decorator_list=[], returns=None
    )
    said = ast.unparse(ast.fix_missing_locations(ast.Module(body=[wanted], type_ignores=[])))
    return f"{said}\nassert {ast.unparse(call)} == _expected()"
