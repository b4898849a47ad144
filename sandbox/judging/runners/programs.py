"""Programs with tests: one type for each form of tests that benchmarks use.

An answer, and additional tests, can be inserted into the files of a tree. The tree is trusted. The
answer is treated as text, and none of it runs here.
"""

import ast
import re
import textwrap
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import model_validator

from schemas.base import Frozen
from schemas.problem import AddedTest, Definition, Placing, SuiteKind


class StatementProgram(Frozen):
    """Python code and statements that follow it, which get one verdict without cases.

    CodeIF-Bench judges programs in this way.
    """

    code: str
    tests: tuple[str, ...]


class AssertProgram(Frozen):
    """Python code and a list of tests.

    Each test has its own verdict, which does not depend on earlier tests.
    """

    code: str
    tests: tuple[str, ...]


class CheckProgram(Frozen):
    """Program in HumanEval's form.

    Prompt and completion are the code. `test` defines `check`, which is called with the entry
    point.
    """

    prompt: str
    completion: str
    test: str
    entry_point: str

    @property
    def code(self) -> str:
        """Return the code that runs before the test."""
        return self.prompt + self.completion


class UnittestProgram(Frozen):
    """Code and a module of unittest classes (BigCodeBench).

    Both run as one module that is not `__main__`.
    """

    code: str
    test: str


class RepositoryProgram(Frozen):
    """Working folder and the pytest node ids to run in it."""

    files: tuple[tuple[str, bytes], ...]
    """Files: (name relative to the folder, content)."""
    node_ids: tuple[str, ...]
    by_candidate: tuple[str, ...] = ()
    """Names of files that the candidate wrote or changed. If one is a conftest.py, a test file or a
    start-up file, that counts as tampering.
    """
    arguments: tuple[str, ...] = ()
    """Additional options of pytest. The option `addopts` in the folder's own settings is ignored.
    """
    folders: tuple[str, ...] = ()
    """Subfolders from which Python imports modules, in addition to the folder itself. Missing ones
    are skipped.
    """
    environment: str = ""
    """Subfolder with packages that take precedence over the sandbox's own packages."""

    @model_validator(mode="after")
    def _names_are_known(self) -> "RepositoryProgram":
        unknown = set(self.by_candidate) - {name for name, _ in self.files}
        if unknown:
            raise ValueError(
                f"by_candidate contains {sorted(unknown)[0]!r}, which is not among the files"
            )
        return self


class JavaProgram(Frozen):
    """Java program in one file: prompt, completion and test. The test's class `Main` runs."""

    prompt: str
    completion: str
    test: str


class JavaScriptProgram(Frozen):
    """JavaScript program for node: prompt, completion and test. Tests may require lodash."""

    prompt: str
    completion: str
    test: str


PythonProgram = StatementProgram | AssertProgram | CheckProgram | UnittestProgram
"""Programs whose tests run after the code in the same process."""
TestProgram = PythonProgram | RepositoryProgram | JavaProgram | JavaScriptProgram


def program_of(
    kind: SuiteKind,
    code: str,
    tests: tuple[str, ...],
    entry_point: str = "",
    files: Mapping[str, bytes] | None = None,
    placing: Placing | None = None,
) -> TestProgram:
    """Return the program that consists of an answer and its tests.

    Args:
        kind: form of the tests.
        code: the answer.
        tests: tests in the form that `SuiteKind` describes. For `check` and `unittest` the items
            are pieces of one text.
        entry_point: for `check`, the name that is called; for `pytest`, the file of the tree that
            contains the answer.
        files: for `pytest`, the tree without the answer.
        placing: for `pytest`, the position of the answer and of additional tests in the tree,
            unless the answer is a complete file.

    Raises:
        LookupError: the file or definition that the answer replaces does not exist.
    """
    text = "\n".join(tests)
    match kind:
        case "statements":
            return StatementProgram(code=code, tests=tests)
        case "asserts":
            return AssertProgram(code=code, tests=tests)
        case "check":
            return CheckProgram(prompt="", completion=code, test=text, entry_point=entry_point)
        case "unittest":
            return UnittestProgram(code=code, test=text)
        case "pytest":
            tree = placed(files or {}, entry_point, code, placing)
            return RepositoryProgram(
                files=tuple(sorted(tree.items())),
                node_ids=tests,
                by_candidate=(entry_point,),
                folders=placing.folders if placing else (),
                environment=placing.environment if placing else "",
            )
        case "java":
            return JavaProgram(prompt="", completion=code, test=text)
        case "javascript":
            return JavaScriptProgram(prompt="", completion=code, test=text)
        case "patch":
            raise ValueError(
                "this function cannot grade a patch: use `sandbox.judging.patched_repository`"
            )


_ONE_AT_A_TIME = threading.Lock()


def parse(text: str) -> ast.Module:
    """Parse Python, one thread at a time.

    Python 3.11 counts the depth of all syntax trees in one variable (cpython#106905). If a garbage
    collection switches threads, the parser rejects valid code with a SystemError. Programs are
    judged in several threads.

    Raises:
        SyntaxError: the text is not Python.
        ValueError: the text contains a null byte.
        RecursionError: the text is nested too deeply.
    """
    with _ONE_AT_A_TIME:
        return ast.parse(text)


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
