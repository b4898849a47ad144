"""HumanEval's rows in Python, Java and JavaScript: references, and tests taken apart into cases (Multilingual HumanEval)."""

import ast
import re

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


class Unsplit(ValueError):
    """Tests of an unknown form; `reason` is the machine-readable name."""

    reason = "unreadable_tests"


class UnknownLanguage(Unsplit):
    """A language that the benchmark does not have."""

    reason = "unknown_language"


def number_of(task_id: str) -> int | None:
    """The number that a task has in all languages; None where the id is of another form."""
    match = _NUMBER.fullmatch(task_id)
    return int(match[1]) if match else None


def cases(language: str, test: str, prompt: str, entry_point: str) -> tuple[str, ...]:
    """The test cases of a row, each a text of its own that stands alone.

    Raises:
        Unsplit: no tests of the known form.
    """
    if language not in LANGUAGES:
        raise UnknownLanguage(f"the language {language!r} is none of {', '.join(LANGUAGES)}")
    found = {"python": _python_cases, "java": _java_cases, "javascript": _javascript_cases}[
        language
    ](test, prompt, entry_point)
    if not found:
        raise Unsplit(f"no test cases are found in its {language} tests")
    return found


def python_reference(prompt: str, solution: str, entry_point: str) -> str:
    """The program of prompt and solution, without the function's docstring, which is the task's statement."""
    program = prompt + solution
    function = _function(_parsed(program), entry_point)
    first = function.body[0] if function is not None else None
    if not (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and len(function.body if function else ()) > 1
    ):
        return program.strip() + "\n"
    lines = program.splitlines(keepends=True)
    return "".join(lines[: first.lineno - 1] + lines[first.end_lineno :]).strip() + "\n"


def _parsed(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def _function(module: ast.Module, name: str) -> ast.FunctionDef | None:
    return next(
        (node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == name),
        None,
    )


def _python_cases(test: str, prompt: str, entry_point: str) -> tuple[str, ...]:
    """One case for each statement of `check` that asserts something; statements between them belong to all later cases."""
    module = _parsed(test)
    check = _function(module, "check")
    if check is None:
        return ()
    begin = [
        *_helpers(prompt, entry_point),
        *(ast.unparse(node) for node in module.body if not _is_idle(node, check)),
    ]
    begin.append(f"{check.args.args[0].arg if check.args.args else 'candidate'} = {entry_point}")
    found: list[str] = []
    for node in check.body:
        asserted = [part.test for part in ast.walk(node) if isinstance(part, ast.Assert)]
        if asserted and not all(isinstance(one, ast.Constant) for one in asserted):
            found.append("\n".join((*begin, ast.unparse(node))))
        elif not asserted and not _is_idle(node, check):
            begin.append(ast.unparse(node))
    return tuple(found)


def _is_idle(node: ast.stmt, check: ast.FunctionDef) -> bool:
    """Whether a statement does nothing for the cases: `check` itself, notes on the data set, texts, `pass`."""
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
    """Functions that the prompt gives beside the one that is asked for, with its imports: cases may call them."""
    module = _parsed(prompt)
    given = [
        node
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name != entry_point
    ]
    imports = [node for node in module.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return [ast.unparse(node) for node in (*imports, *given)] if given else []


def _java_cases(test: str, prompt: str, entry_point: str) -> tuple[str, ...]:
    """Blocks of `Main.main` that need neither its helper nor imports: an answer's file begins with the answer's own."""
    match = _JAVA_BODY.search(test)
    blocks = _BLANK_LINES.split(match[1]) if match else []
    found = [block.strip() for block in blocks if _JAVA_COMPARE.search(block) and "throw" in block]
    with_equals = (
        _JAVA_COMPARE.sub(lambda m: m[1] or "java.util.Objects.equals(", block) for block in found
    )
    return tuple(
        _JAVA_UTIL.sub(lambda m: m[1] or f"java.util.{m[2]}", block) for block in with_equals
    )


def _javascript_cases(test: str, prompt: str, entry_point: str) -> tuple[str, ...]:
    """Blocks of the test, each behind its helpers."""
    match = _JS_FIRST.search(test)
    if match is None:
        return ()
    helpers, blocks = test[: match.start()].strip(), _BLANK_LINES.split(test[match.start() :])
    return tuple(
        f"{helpers}\n{block.strip()}"
        for block in blocks
        if "compare(" in block and "throw" in block
    )
