"""Hand-made raw rows, and files of them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tasks.benchmarks.convcode
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.convcode.stage import stage

SAMPLE = Path(tasks.benchmarks.convcode.__path__[0]) / "sample"
TEST = (
    "import unittest\n\n\nclass TestCases(unittest.TestCase):\n"
    "    def test_case_1(self):\n        self.assertEqual(task_func(), 1)\n"
)


def raw_row(**changes: Any) -> dict[str, Any]:
    """A valid row of BigCodeBench; a change to None takes the field out."""
    row: dict[str, Any] = {
        "task_id": "BigCodeBench/0",
        "complete_prompt": 'import math\n\ndef task_func():\n    """Give one."""\n',
        "instruct_prompt": "Give one.",
        "canonical_solution": "    return 1\n",
        "code_prompt": "import math\n\ndef task_func():\n",
        "test": TEST,
        "entry_point": "task_func",
        "doc_struct": "{}",
        "libs": "['math', 'sklearn.svm', 'numpy']",
    }
    row |= changes
    return {name: value for name, value in row.items() if value is not None}


def check_row(**changes: Any) -> dict[str, Any]:
    """A valid row of HumanEval's form."""
    return {
        "task_id": "HumanEval/0",
        "prompt": 'def one():\n    """Give one."""\n',
        "canonical_solution": "    return 1\n",
        "entry_point": "one",
        "test": (
            "def check(candidate):\n    assert candidate() == 1\n    assert candidate() > 0, "
            "'too small'\n"
        ),
    } | changes


def asserts_row(**changes: Any) -> dict[str, Any]:
    """A valid row of MBPP's original form."""
    return {
        "task_id": 7,
        "text": "Write a function to give one.",
        "code": "def one():\r\n    return 1",
        "test_list": ["assert one() == 1", "assert one() + one() == 2"],
        "test_setup_code": "",
        "challenge_test_list": [],
    } | changes


def write_rows(path: Path, *rows: Mapping[str, Any] | bytes) -> Path:
    """A file of JSON lines; bytes are written as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"".join(
            (row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows
        )
    )
    return path


def write_parquet(path: Path, *rows: Mapping[str, Any]) -> Path:
    """A Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
    return path


def sample() -> Staged:
    """The bundled tasks."""
    return stage(SAMPLE, "sample")
