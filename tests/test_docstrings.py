"""Every module, class and public function has a docstring."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

import pytest

from tests.own_files import relative
from tests.test_architecture import CODE, none_of

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_functions(body: Iterable[ast.stmt]) -> list[Function]:
    """Functions of a module's or a class's body whose names have no leading underscore."""
    return [node for node in body if isinstance(node, Function) and not node.name.startswith("_")]


def bases(node: ast.ClassDef) -> set[str]:
    """Names of a class's bases, without brackets and modules."""
    return {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}


def classes(trees: Iterable[ast.Module]) -> dict[str, list[ast.ClassDef]]:
    """Name -> the classes of this name."""
    found: dict[str, list[ast.ClassDef]] = {}
    for node in (node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)):
        found.setdefault(node.name, []).append(node)
    return found


def declared(node: ast.ClassDef, known: Mapping[str, list[ast.ClassDef]]) -> Iterator[str]:
    """Methods that a base of the class describes, or a class that its docstring names in full: "See
    `package.Protocol`".
    """
    named = {
        dotted.split(".")[-1]
        for dotted in re.findall(r"`((?:\w+\.)+\w+)`", ast.get_docstring(node) or "")
    }
    for base in (
        base for name in (bases(node) | named) - {node.name} for base in known.get(name, ())
    ):
        yield from (
            method.name for method in public_functions(base.body) if ast.get_docstring(method)
        )
        yield from declared(base, known)


def silent_parts(name: str, tree: ast.Module, known: Mapping[str, list[ast.ClassDef]]) -> list[str]:
    """Public functions and classes, and methods of public classes, without a docstring; the module
    itself, too.

    A method need not repeat the docstring of a protocol or base that its class declares.
    """
    silent = [name] if tree.body and ast.get_docstring(tree) is None else []
    silent += [
        f"{name}:{f.lineno}: {f.name}"
        for f in public_functions(tree.body)
        if ast.get_docstring(f) is None
    ]
    for node in (
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ):
        silent += [f"{name}:{node.lineno}: {node.name}"] if ast.get_docstring(node) is None else []
        methods = [
            f
            for f in public_functions(node.body)
            if ast.get_docstring(f) is None and f.name not in declared(node, known)
        ]
        silent += [f"{name}:{f.lineno}: {node.name}.{f.name}" for f in methods]
    return silent


ARGUMENTS = re.compile(r"^Args:\n((?: {4}.*\n?|\n)+)", re.MULTILINE)


def unknown_arguments(name: str, tree: ast.Module) -> list[str]:
    """Return the names below `Args:` in a function's docstring that it does not take."""
    unknown: list[str] = []
    for node in (node for node in ast.walk(tree) if isinstance(node, Function)):
        described = ARGUMENTS.search(ast.get_docstring(node) or "")
        names = re.findall(r"^ {4}(\w+): ", described[1], re.MULTILINE) if described else ()
        taken = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        unknown += [f"{name}:{node.lineno}: {arg}" for arg in names if arg not in taken]
    return unknown


@pytest.mark.slow
def test_every_module_class_and_public_function_says_what_it_is() -> None:
    trees = {relative(path): ast.parse(path.read_text(encoding="utf-8")) for path in CODE}
    known = classes(trees.values())
    none_of([line for name, tree in trees.items() for line in silent_parts(name, tree, known)])
    none_of([line for name, tree in trees.items() for line in unknown_arguments(name, tree)])


def test_a_described_argument_that_was_renamed_is_found() -> None:
    function = (
        'def play({}):\n    """Plays.\n\n    Args:\n        limit: n.\n\n    Returns: x.\n    """'
    )
    assert unknown_arguments("a.py", ast.parse(function.format("limit, *rest"))) == []
    assert unknown_arguments("a.py", ast.parse(function.format("most, *, rest"))) == [
        "a.py:1: limit"
    ]


def test_a_silent_method_is_found_unless_its_class_declares_who_describes_it() -> None:
    seat = ast.parse(
        'class Participant(Protocol):\n    def speak(self):\n        "Says."\n    def stop(self): ...'
    )
    source = (
        '"Chairs."\nclass Stool:\n    "{}"\n    def speak(self): ...\n    def stop(self): ...\n  '
        "  def _lean(self): ..."
    )
    of_a_seat, of_none = (
        ast.parse(source.format("See `rooms.Participant`.")),
        ast.parse(source.format("Low.")),
    )
    assert silent_parts("a.py", of_a_seat, classes([seat])) == ["a.py:5: Stool.stop"]
    assert silent_parts("a.py", of_none, classes([seat])) == [
        "a.py:4: Stool.speak",
        "a.py:5: Stool.stop",
    ]
    board = ast.parse('class Board:\n    def show(self):\n        "Shows."\nclass Wide(Board): ...')
    line = '"Boards."\nclass Line({}):\n    "Long."\n    def show(self): ...'
    for base in ("Board", "Wide"):
        assert silent_parts("a.py", ast.parse(line.format(base)), classes([board])) == []
    assert silent_parts("a.py", ast.parse(line.format("")), classes([board])) == [
        "a.py:4: Line.show"
    ]


def test_a_silent_class_is_found() -> None:
    assert silent_parts(
        "a.py", ast.parse('"Ends."\nclass Outcome(StrEnum):\n    PASSED = "passed"'), {}
    ) == ["a.py:2: Outcome"]
