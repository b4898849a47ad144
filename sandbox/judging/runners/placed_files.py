"""Puts an answer and added tests into the files of a tree. The tree is trusted, the answer is text: nothing here is run."""

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sandbox.judging.python_syntax import parse
from schemas.placing import AddedTest, Definition, Placing

_UNENCODED = "surrogateescape"
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""A line as Python's grammar counts it. `str.splitlines` ends lines at form feeds and seven marks more."""
Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def placed(
    files: Mapping[str, bytes], entry_point: str, code: str, placing: Placing | None
) -> Mapping[str, bytes]:
    """A tree's files with an answer and added tests in them.

    Raises:
        LookupError: there is no file, or no definition, whose place the answer takes.
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
    """A file in which code stands in place of a definition, with the definition's indentation.

    Raises:
        LookupError: the file has no such definition.
    """
    lines = _lines(text)
    first, last = definition_lines(text, definition)
    margin = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
    answer = _indented(textwrap.dedent(code), margin)
    return "".join([*lines[: first - 1], answer.rstrip("\n") + "\n", *lines[last:]])


def definition_lines(text: str, definition: Definition) -> tuple[int, int]:
    """First and last line of a definition, without its decorators.

    The dataset's own lines, where the definition begins there; of several elsewhere the nearest to them.

    Raises:
        LookupError: the file has no such definition, or is not Python.
    """
    name = definition.name.rpartition(".")[2]
    lines = _lines(text)
    if definition.last_line <= len(lines) and _begins(lines[definition.first_line - 1], name):
        return definition.first_line, definition.last_line
    found = [
        node for path, node in _definitions(_parsed(text).body) if _is_called(path, definition.name)
    ]
    if not found:
        raise LookupError(f"there is no definition of {definition.name}")
    nearest = min(found, key=lambda node: abs(node.lineno - definition.first_line))
    return nearest.lineno, nearest.end_lineno or nearest.lineno


def with_tests(files: Mapping[str, str], added: Sequence[AddedTest]) -> Mapping[str, str]:
    """Files of tests with further tests in them. A test that is not Python is left out: its node is not found then."""
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
    """Lines with their ends."""
    return _LINE.findall(text)


def _indented(text: str, margin: str) -> str:
    """Text with a margin before each line that holds more than space: `textwrap.indent` has other lines than Python."""
    return "".join(margin + line if line.strip() else line for line in _lines(text))


def _classes(body: Sequence[ast.stmt]) -> list[ast.ClassDef]:
    return [node for _, node in _definitions(body) if isinstance(node, ast.ClassDef)]


def _definitions(
    body: Iterable[ast.stmt], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Defined]]:
    """Definitions with the names that lead to them, also those under `if` and `try`."""
    for node in body:
        if isinstance(node, Defined):
            yield (*path, node.name), node
            yield from _definitions(node.body, (*path, node.name))
        else:
            inner = [
                part
                for name in ("body", "orelse", "finalbody", "handlers")
                for part in getattr(node, name, ())
            ]
            yield from _definitions(
                [part for part in inner if isinstance(part, (ast.stmt, ast.excepthandler))], path
            )  # pyright: ignore[reportArgumentType]  (handlers have a body, too)


def _is_called(path: tuple[str, ...], name: str) -> bool:
    wanted = tuple(name.split("."))
    return path[-len(wanted) :] == wanted


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
