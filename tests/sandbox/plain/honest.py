"""Read the honest programs: `honest_programs.txt`, and small cases that ended wrongly elsewhere.

A program of the text file is a line `### name | kind | packages that it needs`, its code, and
blocks of tests. A block begins with `--- ` and the outcome in plain Python: `passes` or `fails`.
One whose verdict departs from that on purpose names the stated exception: `passes but EARLY_EXIT`.
A block may have a title after a colon. Each block with the code is one program.
"""

import ast
import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandbox.judging.runners.programs import (
    AssertProgram,
    CheckProgram,
    RepositoryProgram,
    StatementProgram,
    TestProgram,
    UnittestProgram,
)

FILE = Path(__file__).with_name("honest_programs.txt")
_BLOCK = re.compile(r"^--- (passes|fails)(?: but (\w+))?(?:: (.*))?$", re.MULTILINE)


@dataclass(frozen=True)
class Honest:
    """A program, and the outcome that its author expects of plain Python."""

    name: str
    program: TestProgram
    passes: bool
    exception: str = ""
    """Name of the stated exception by which Parley fails it; empty for none."""
    missing_package: str | None = None
    """A package that it needs and that is not installed here."""


def honest_programs() -> Iterator[Honest]:
    """Yield the programs of the text file, each block of tests as a program of its own."""
    _, *sections = FILE.read_text(encoding="utf-8").split("\n### ")
    for section in sections:
        header, _, body = section.partition("\n")
        name, kind, *packages = (part.strip() for part in header.split("|"))
        missing = next(
            (
                one
                for part in packages
                for one in part.split()
                if importlib.util.find_spec(one) is None
            ),
            None,
        )
        code, *blocks = _BLOCK.split(body)
        if not blocks:
            raise ValueError(f"{FILE.name}: {name} has no block of tests")
        for n, (outcome, exception, title, tests) in enumerate(
            zip(*[iter(blocks)] * 4, strict=True), 1
        ):
            yield Honest(
                name=f"{name}/{title or f'{outcome} {n}'}",
                program=_program(kind, code.strip("\n") + "\n", tests.strip("\n") + "\n"),
                passes=outcome == "passes",
                exception=exception or "",
                missing_package=missing,
            )


def honest_cases(path: Path) -> Iterator[tuple[str, TestProgram]]:
    """Yield the programs of a JSON Lines file of `{name, kind, code, tests}`.

    Raises:
        FileNotFoundError: it is not there.
    """
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        if row["kind"] != "statements":
            raise ValueError(
                f"{path.name}: {row['name']} is of kind {row['kind']}, which has no reader here"
            )
        yield row["name"], StatementProgram(code=row["code"], tests=tuple(row["tests"]))


def _program(kind: str, code: str, tests: str) -> TestProgram:
    match kind:
        case "statements":
            return StatementProgram(code=code, tests=(tests,))
        case "asserts":
            return AssertProgram(
                code=code,
                tests=tuple(
                    ast.get_source_segment(tests, part) or "" for part in ast.parse(tests).body
                ),
            )
        case "check":
            return CheckProgram(prompt="", completion=code, test=tests, entry_point="f")
        case "unittest":
            return UnittestProgram(code=code, test=tests)
        case "pytest":
            return RepositoryProgram(
                files=(("answer.py", code.encode()), ("test_answer.py", tests.encode())),
                node_ids=tuple(
                    f"test_answer.py::{name}" for name in _test_functions(ast.parse(tests).body)
                ),
                by_candidate=("answer.py",),
            )
    raise ValueError(f"{FILE.name}: {kind!r} is no kind of tests")


def _test_functions(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test"
        ):
            yield node.name
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from (f"{node.name}::{name}" for name in _test_functions(node.body))
