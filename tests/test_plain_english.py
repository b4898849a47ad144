"""Texts for readers: the list of commands is never cut, and no sentence has `what`, `that`, `those` or `who` for its subject."""

import ast
import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import pytest

from tests.own_files import own_files, relative
from tests.test_readme import FENCE, PAGES, command_tree

SUBJECT = re.compile(r"(What|That|Those|Who|Whoever|Whatever)\b")
BEGINNING = re.compile(r"(?:\A|(?<=[.!?:;])\s+|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s+|\| )[`*(]*(?=\w)")
END = re.compile(r"[.!?](?:\s|$)|\n\s*\n|\n\s*[-*]|$")
SAYING = {"print", "say", "_say", "echo", "note"}
HISTORY = ("CHANGELOG.md", "docs/history.md", "docs/decisions/")
CODE = tuple(
    path
    for path in own_files()
    if path.suffix == ".py"
    and relative(path).split("/")[0] in ("flows", "sandbox", "schemas", "tasks", "warehouse")
)


def unclear(text: str, *, is_titled: bool = False) -> list[str]:
    """Sentences with such a subject. A question has one by right, and so has a title: the first sentence of a docstring."""
    found: list[str] = []
    for start in (match.end() for match in BEGINNING.finditer(text)):
        end = END.search(text, start)
        sentence = text[start : end.end() if end else len(text)].strip()
        if (
            SUBJECT.match(sentence)
            and not sentence.endswith("?")
            and not (is_titled and start == 0)
        ):
            found.append(" ".join(sentence.split()))
    return found


def help_texts(command: Any, name: str = "parley") -> Iterator[tuple[str, str]]:
    """(command, text) of each command and each of its parameters."""
    yield name, command.help or ""
    yield from (
        (f"{name} {parameter.name}", getattr(parameter, "help", "") or "")
        for parameter in command.params
    )
    for below, one in getattr(command, "commands", {}).items():
        yield from help_texts(one, f"{name} {below}")


def said_texts(tree: ast.AST) -> Iterator[str]:
    """Texts of errors that are raised, and of lines that are printed; `{}` stands for each value in them."""
    for node in ast.walk(tree):
        says = isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in SAYING
        if isinstance(node, ast.Raise) or says:
            yield from _texts(node)


def docstrings(tree: ast.AST) -> Iterator[str]:
    """Docstrings of modules, classes, functions and values."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield cleandoc(node.value.value)


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        yield "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


def test_no_line_of_the_list_of_commands_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from flows.cli.app import app

    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(app, ["--help"]).output.partition("Commands:")[2]
    assert all(f"\n  {name} " in shown for name in command_tree().commands)
    assert [line for line in shown.splitlines() if line.rstrip().endswith("...")] == []


def test_help_texts_have_clear_subjects() -> None:
    assert [(name, one) for name, text in help_texts(command_tree()) for one in unclear(text)] == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if not relative(page).startswith(HISTORY)], ids=relative
)
def test_pages_have_clear_subjects(page: Path) -> None:
    assert unclear(FENCE.sub("", page.read_text(encoding="utf-8"))) == []


@pytest.mark.slow
def test_errors_printed_lines_and_docstrings_have_clear_subjects() -> None:
    found: list[tuple[str, str]] = []
    for path in CODE:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [(relative(path), one) for text in said_texts(tree) for one in unclear(text)]
        found += [
            (relative(path), one)
            for text in docstrings(tree)
            for one in unclear(text, is_titled=True)
        ]
    assert found == []


def test_an_unclear_subject_is_found() -> None:
    assert unclear("Stops. What was answered\nis kept. Ends.") == ["What was answered is kept."]
    assert unclear("- Kept:\n- Whoever asks is told; those wait") == [
        "Whoever asks is told; those wait"
    ]
    assert unclear("`a`: That also holds. | Who asks | x |") != []
    assert unclear("Says what it does. What can go wrong? The files that change. Thatcher") == []
    assert unclear("What is asked, and where. What is due follows.", is_titled=True) == [
        "What is due follows."
    ]
    assert list(docstrings(ast.parse('x = 1\n"""One.\n\n    Two."""'))) == ["One.\n\nTwo."]
    code = ast.parse(
        'raise E(f"{x}: gone. What is left of {y} stays") from e\nboard.say("Those are late")\nz = "What is this"'
    )
    assert [one for text in said_texts(code) for one in unclear(text)] == [
        "What is left of {} stays",
        "Those are late",
    ]
