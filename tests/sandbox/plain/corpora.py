"""Programs with public tests, beyond those of `tests.bench.references`: CodeIF's functions and
BigCodeBench.

`PARLEY_BIGCODEBENCH` names BigCodeBench's file, or a folder that holds it: `BigCodeBench.jsonl.gz`
of `bigcode-project/bigcodebench-annotation`, folder `hf_data`. Nothing of it is kept here.
"""

import ast
import functools
import gzip
import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path

from sandbox.judging.runners.programs import StatementProgram, UnittestProgram

BIGCODEBENCH_VARIABLE = "PARLEY_BIGCODEBENCH"
_BIGCODEBENCH_FILE = "BigCodeBench.jsonl.gz"
_CODEIF_FILE = "codeif_bench/function/L_1_part_1.jsonl"


def codeif_functions(data: Path) -> Iterator[tuple[str, StatementProgram]]:
    """Yield each function's reference with its base tests, and with each requirement's, which many
    references fail.

    Raises:
        FileNotFoundError: the data is not there.
    """
    for line in (data / _CODEIF_FILE).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield (
            f"codeif/{row['task_id']}/base",
            StatementProgram(code=row["code"], tests=tuple(row["test"])),
        )
        for name, requirement in row["requirements"].items():
            tests = requirement["unit_test"]
            lines = (tests,) if isinstance(tests, str) else tuple(tests)
            yield f"codeif/{row['task_id']}/{name}", StatementProgram(code=row["code"], tests=lines)


def bigcodebench_file() -> Path | None:
    """Path of BigCodeBench's tasks; None where the variable names none."""
    named = os.environ.get(BIGCODEBENCH_VARIABLE)
    path = Path(named) if named else None
    if path is not None and path.is_dir():
        path = path / _BIGCODEBENCH_FILE
    return path if path is not None and path.is_file() else None


def bigcodebench(path: Path) -> Iterator[tuple[str, UnittestProgram]]:
    """Yield the reference of each task whose packages are installed here."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            code = row["complete_prompt"] + row["canonical_solution"]
            if all(map(_is_installed, imported_modules(f"{code}\n{row['test']}"))):
                yield row["task_id"], UnittestProgram(code=code, test=row["test"])


def imported_modules(text: str) -> frozenset[str]:
    """List the top-level modules that a text imports, wherever in it.

    Raises:
        SyntaxError: it is not Python.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {item.name for item in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return frozenset(name.partition(".")[0] for name in names)


@functools.cache
def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
