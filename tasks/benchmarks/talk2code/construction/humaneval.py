"""Multilingual HumanEval: references, and tests split into cases (Python, Java, JavaScript)."""

import ast
import re

from tasks.benchmarks.raw_rows import BadRow
from tasks.benchmarks.talk2code.languages import LANGUAGES

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
