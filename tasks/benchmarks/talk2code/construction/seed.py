"""Tasks without dialogues from HumanEval and ColBench (Zhou et al. 2025), the input of the build.

A task of ColBench's backend has a description, a Python function, and calls of the function.

Multilingual HumanEval has references, and tests split into cases (Python, Java, JavaScript).
"""

import ast
import json
import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from schemas.content_id import content_id
from tasks.benchmarks.raw_rows import BadRow, RawModel, Text, validated
from tasks.benchmarks.talk2code.languages import LANGUAGES
from tasks.benchmarks.talk2code.raw_row import TaskText

_NUMBER = re.compile(r"HumanEval(?:_\w+)?/(\d+)")
_JAVA_BODY = re.compile(
    r"public static void main\(String\[\] \w+\) throws Exception \{\n(.*)\}\s*\}\s*\Z", re.DOTALL
)
_JAVA_COMPARE = re.compile(r'("(?:[^"\\\n]|\\.)*")|(?<![\w.])compare\(')
_JAVA_UTIL = re.compile(
    r'("(?:[^"\\\n]|\\.)*")|(?<![\w.])(Arrays|List|Map|HashMap|ArrayList|Optional)\b'
)
_JS_FIRST = re.compile(r"^var arg00\b", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n[ \t]*\n")


def number_of(task_id: str) -> int | None:
    """Return a task's number, equal in all languages; None for an id of another form."""
    match = _NUMBER.fullmatch(task_id)
    return int(match[1]) if match else None


def cases(language: str, test: str, prompt: str, entry_point: str) -> tuple[str, ...]:
    """Return the test cases of a row as independent texts.

    Raises:
        BadRow: unknown_language, or unreadable_tests for tests of an unknown form.
    """
    if language not in LANGUAGES:
        raise BadRow(
            "unknown_language", f"the language {language!r} is none of {', '.join(LANGUAGES)}"
        )
    test_cases = {"python": _python_cases, "java": _java_cases, "javascript": _javascript_cases}[
        language
    ](test, prompt, entry_point)
    if not test_cases:
        raise BadRow("unreadable_tests", f"no test cases are found in its {language} tests")
    return test_cases


def python_reference(prompt: str, solution: str, entry_point: str) -> str:
    """Return the program of prompt and solution without the docstring, which is the statement."""
    program = prompt + solution
    function = function_in(_parse(program), entry_point)
    first = function.body[0] if function is not None else None
    if not (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and len(function.body if function else ()) > 1
    ):
        return program.strip() + "\n"
    lines = program.splitlines(keepends=True)
    return "".join(lines[: first.lineno - 1] + lines[first.end_lineno :]).strip() + "\n"


def _parse(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def function_in(module: ast.Module, name: str) -> ast.FunctionDef | None:
    """Return the module's function of that name, or None."""
    return next(
        (node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == name),
        None,
    )


def _python_cases(test: str, prompt: str, entry_point: str) -> tuple[str, ...]:
    """Return a case for each assertion in `check`; other statements belong to all later cases."""
    module = _parse(test)
    check = function_in(module, "check")
    if check is None:
        return ()
    begin = [
        *_helpers(prompt, entry_point),
        *(ast.unparse(node) for node in module.body if not _is_idle(node, check)),
    ]
    begin.append(f"{check.args.args[0].arg if check.args.args else 'candidate'} = {entry_point}")
    test_cases: list[str] = []
    for node in check.body:
        conditions = [part.test for part in ast.walk(node) if isinstance(part, ast.Assert)]
        if conditions and not all(isinstance(condition, ast.Constant) for condition in conditions):
            test_cases.append("\n".join((*begin, ast.unparse(node))))
        elif not conditions and not _is_idle(node, check):
            begin.append(ast.unparse(node))
    return tuple(test_cases)


def _is_idle(node: ast.stmt, check: ast.FunctionDef) -> bool:
    """Return True if the cases do not need a statement.

    Such statements are `check` itself, `METADATA`, constants and `pass`.
    """
    if (
        node is check
        or isinstance(node, ast.Pass)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ):
        return True
    return isinstance(node, ast.Assign) and [
        getattr(target, "id", "") for target in node.targets
    ] == ["METADATA"]


def _helpers(prompt: str, entry_point: str) -> list[str]:
    """Return imports and helper functions of the prompt, which cases may call.

    Without helper functions, the imports are not needed.
    """
    module = _parse(prompt)
    helpers = [
        node
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name != entry_point
    ]
    imports = [node for node in module.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return [ast.unparse(node) for node in (*imports, *helpers)] if helpers else []


def _java_cases(test: str, prompt: str, entry_point: str) -> tuple[str, ...]:
    """Return the blocks of `Main.main`, rewritten to need neither its helper nor imports.

    The file begins with the answer's own imports, so tests cannot add any.
    """
    match = _JAVA_BODY.search(test)
    blocks = _BLANK_LINES.split(match[1]) if match else []
    with_compare = [
        block.strip() for block in blocks if _JAVA_COMPARE.search(block) and "throw" in block
    ]
    with_equals = (
        _JAVA_COMPARE.sub(lambda m: m[1] or "java.util.Objects.equals(", block)
        for block in with_compare
    )
    return tuple(
        _JAVA_UTIL.sub(lambda m: m[1] or f"java.util.{m[2]}", block) for block in with_equals
    )


def _javascript_cases(test: str, prompt: str, entry_point: str) -> tuple[str, ...]:
    """Return the blocks of the test, each preceded by the helpers."""
    match = _JS_FIRST.search(test)
    if match is None:
        return ()
    helpers, blocks = test[: match.start()].strip(), _BLANK_LINES.split(test[match.start() :])
    return tuple(
        f"{helpers}\n{block.strip()}"
        for block in blocks
        if "compare(" in block and "throw" in block
    )


class Seed(TaskText):
    """Task for which the build writes dialogues."""

    reference: str = ""
    """Reference program; empty if the build must write it."""
    python_reference: str = ""
    """Python program from which the build writes a reference in another language; empty if there is
    none."""


def _expressions(cases: dict[str, str]) -> dict[str, str]:
    if not cases:
        raise ValueError("no test cases")
    return cases


class _HumanEvalRow(RawModel):
    task_id: Text
    prompt: Text
    entry_point: Text
    test: Text
    language: str = "python"
    canonical_solution: str | None = None


class _ColBenchRow(RawModel):
    problem_description: Text
    ground_truth: Text
    test_cases: Annotated[dict[str, Text], AfterValidator(_expressions), Field(max_length=1000)]


def is_humaneval(raw: dict[str, Any]) -> bool:
    """Return True for a row of HumanEval in any language."""
    return "prompt" in raw and "entry_point" in raw and "test" in raw


def seed_of(raw: dict[str, Any], python_references: dict[int, str]) -> Seed | None:
    """Return the task of a row; None for a row of neither HumanEval nor ColBench.

    Args:
        raw: the row.
        python_references: HumanEval's number -> reference in Python.

    Raises:
        BadRow: missing_field, wrong_type, blank_text, unknown_language or unreadable_tests; for
            ColBench also async_function, class_under_test or listed_tests.
    """
    if is_humaneval(raw):
        return _of_humaneval(validated(_HumanEvalRow, raw), python_references)
    if "ground_truth" in raw and "test_cases" in raw:
        if isinstance(raw["test_cases"], list):
            raise BadRow(
                "listed_tests",
                "test_cases is a list, where ColBench has an object of names and calls",
            )
        return _of_colbench(validated(_ColBenchRow, raw))
    return None


def _of_humaneval(row: _HumanEvalRow, python_references: dict[int, str]) -> Seed:
    reference = (
        python_reference(row.prompt, row.canonical_solution, row.entry_point)
        if row.canonical_solution
        else ""
    )
    number = number_of(row.task_id)
    try:
        tests = cases(row.language, row.test, row.prompt, row.entry_point)
    except BadRow as bad:
        raise BadRow(bad.reason, f"{row.task_id}: {bad}") from None
    return Seed(
        task_id=row.task_id,
        language=row.language,
        source="algorithm",
        problem=row.prompt.strip(),
        entry_point=row.entry_point,
        reference=reference if row.language == "python" else "",
        tests=list(tests),
        python_reference=""
        if row.language == "python" or number is None
        else python_references.get(number, ""),
    )


def _of_colbench(row: _ColBenchRow) -> Seed:
    try:
        task = read_task(row.problem_description, row.ground_truth, tuple(row.test_cases.values()))
    except SyntaxError as fault:
        raise BadRow(
            "unreadable_tests",
            f"ground_truth or a test case is no Python that can be read ({fault.msg})",
        ) from None
    digest = content_id(json.dumps([row.problem_description, row.ground_truth]))[:12]
    return Seed(
        task_id=f"colbench/{digest}",
        language="python",
        source="backend",
        problem=task.problem,
        entry_point=task.entry_point,
        reference=row.ground_truth.strip() + "\n",
        tests=list(task.cases),
    )


def python_reference_of(raw: dict[str, Any]) -> tuple[int, str] | None:
    """Return (number, reference) of a HumanEval row in Python; None if it has no reference."""
    if not is_humaneval(raw) or raw.get("language", "python") != "python":
        return None
    try:
        row = validated(_HumanEvalRow, raw)
    except BadRow:
        return None
    number = number_of(row.task_id)
    if number is None or not row.canonical_solution:
        return None
    return number, python_reference(row.prompt, row.canonical_solution, row.entry_point)


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
        BadRow: the calls use no function of the ground truth, or a coroutine or class.
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
    function = function_in(module, entry_point)
    signature = f"{entry_point}({ast.unparse(function.args) if function else ''})"
    is_named = re.search(rf"(?<!\w){re.escape(entry_point)}(?!\w)", description)
    problem = (
        description.strip() if is_named else f"{description.strip()}\n\nSignature: `{signature}`"
    )
    return ColBenchTask(
        problem, entry_point, tuple(_case(module, expression) for expression in expressions)
    )


def _unusable(module: ast.Module, names: list[str], called_names: set[str]) -> BadRow:
    """Return the reason why the calls use no function that can be tested.

    ColBench compares the results of one function, and a coroutine has no result to compare.
    """
    for node in module.body:
        if isinstance(node, ast.AsyncFunctionDef) and node.name in called_names:
            return BadRow(
                "async_function",
                f"test cases call the coroutine {node.name}: its result is not a value to compare",
            )
        if isinstance(node, ast.ClassDef) and node.name in called_names:
            return BadRow(
                "class_under_test",
                f"test cases call the class {node.name} and no function of ground_truth",
            )
    return BadRow(
        "unreadable_tests",
        f"no test case calls a function of ground_truth ({', '.join(names) or 'it has none'})",
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
