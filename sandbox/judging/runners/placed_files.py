"""Insertion of an answer and of additional tests into the files of a tree.

The tree is trusted. The answer is treated as text, and none of it runs here.
"""

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sandbox.judging.python_syntax import parse
from schemas.problem import AddedTest, Definition, Placing

_UNENCODED = "surrogateescape"
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""Pattern of a line as Python's grammar counts lines. `str.splitlines` would also split at form
feeds and seven other characters.
"""
Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def placed(
    files: Mapping[str, bytes], entry_point: str, code: str, placing: Placing | None
) -> Mapping[str, bytes]:
    """Return the files of a tree with an answer and additional tests in them.

    Raises:
        LookupError: the file or definition that the answer replaces does not exist.
    """
    if placing is None:
        return {**files, entry_point: code.encode("utf-8", "surrogatepass")}
    if entry_point not in files:
        raise LookupError(f"there is no file {entry_point}")
    answered = with_answer(
        _text(files[entry_point]), _text(code.encode("utf-8", "surrogatepass")), placing.definition
    )
    tested = {
        name: _text(files[name])
        for name in {t.node_id.partition("::")[0] for t in placing.added}
        if name in files
    }
    changed = {**with_tests(tested, placing.added), entry_point: answered}
    return {**files, **{name: text.encode("utf-8", _UNENCODED) for name, text in changed.items()}}


def _text(content: bytes) -> str:
    return content.decode("utf-8", _UNENCODED).replace("\r\n", "\n")


def with_answer(text: str, code: str, definition: Definition) -> str:
    """Return a file's text in which `code`, with the right indentation, replaces a definition.

    Raises:
        LookupError: the file has no such definition.
    """
    lines = _lines(text)
    first, last = definition_lines(text, definition)
    margin = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
    answer = _indented(textwrap.dedent(code), margin)
    return "".join([*lines[: first - 1], answer.rstrip("\n") + "\n", *lines[last:]])


def definition_lines(text: str, definition: Definition) -> tuple[int, int]:
    """Return the numbers of a definition's first and last line, without its decorators.

    They are the dataset's line numbers if the definition begins there. Otherwise they are those of
    the nearest definition with this name.

    Raises:
        LookupError: the file has no such definition, or is not Python.
    """
    name = definition.name.rpartition(".")[2]
    lines = _lines(text)
    if definition.last_line <= len(lines) and _begins(lines[definition.first_line - 1], name):
        return definition.first_line, definition.last_line
    candidates = [
        node for path, node in _definitions(_parsed(text).body) if _is_called(path, definition.name)
    ]
    if not candidates:
        raise LookupError(f"there is no definition of {definition.name}")
    nearest = min(candidates, key=lambda node: abs(node.lineno - definition.first_line))
    return nearest.lineno, nearest.end_lineno or nearest.lineno


def with_tests(files: Mapping[str, str], added: Sequence[AddedTest]) -> Mapping[str, str]:
    """Return test files with additional tests in them.

    A test that is not valid Python is omitted, so its node does not exist.
    """
    changed = dict(files)
    for test in added:
        name, *within = test.node_id.split("::")
        if name in changed and _is_python(test.text):
            changed[name] = _with_test(
                changed[name], within[0] if len(within) > 1 else None, test.text
            )
    return changed


def _with_test(text: str, class_name: str | None, test: str) -> str:
    lines = _lines(text)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += "\n"
    owner = (
        None
        if class_name is None
        else next((n for n in _classes(_parsed(text).body) if n.name == class_name), None)
    )
    if owner is None:
        return "".join([*lines, "\n\n", textwrap.dedent(test).strip("\n"), "\n"])
    margin = " " * owner.body[0].col_offset
    end = owner.end_lineno or len(lines)
    method = _indented(textwrap.dedent(test).strip("\n"), margin)
    return "".join([*lines[:end], "\n", method, "\n", *lines[end:]])


def _lines(text: str) -> list[str]:
    """Return the lines with their line ends."""
    return _LINE.findall(text)


def _indented(text: str, margin: str) -> str:
    """Indent each line that is not blank by `margin`.

    `textwrap.indent` counts lines differently from Python.
    """
    return "".join(margin + line if line.strip() else line for line in _lines(text))


def _classes(body: Sequence[ast.stmt]) -> list[ast.ClassDef]:
    return [node for _, node in _definitions(body) if isinstance(node, ast.ClassDef)]


def _definitions(
    body: Iterable[ast.stmt], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Defined]]:
    """Yield each definition with the names of its enclosing classes and functions, and its own.

    Definitions in `if` and `try` statements are included.
    """
    for node in body:
        if isinstance(node, Defined):
            yield (*path, node.name), node
            yield from _definitions(node.body, (*path, node.name))
        else:
            names = ("body", "orelse", "finalbody", "handlers")
            inner = [part for name in names for part in getattr(node, name, ())]
            parts = [part for part in inner if isinstance(part, (ast.stmt, ast.excepthandler))]
            yield from _definitions(parts, path)  # pyright: ignore[reportArgumentType]  (handlers have a body, too)


def _is_called(path: tuple[str, ...], name: str) -> bool:
    suffix = tuple(name.split("."))
    return path[-len(suffix) :] == suffix


def _begins(line: str, name: str) -> bool:
    words = line.split("(")[0].split()
    return words[:1] in (["def"], ["async"]) and words[-1:] == [name]


def _parsed(text: str) -> ast.Module:
    try:
        return parse(text)
    except (SyntaxError, ValueError, RecursionError) as fault:
        raise LookupError(f"the file is not Python: {fault}") from None


def _is_python(text: str) -> bool:
    try:
        parse(textwrap.dedent(text).strip("\n"))
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True
