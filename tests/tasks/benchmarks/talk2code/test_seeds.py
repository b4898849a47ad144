"""Tasks without dialogues: rows of HumanEval in three languages and of ColBench, and what becomes
of their tests.
"""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schemas.dialog import Dialog
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.talk2code import BENCHMARK
from tests.own_files import ROOT

PYTHON: dict[str, Any] = {
    "task_id": "HumanEval/7",
    "prompt": 'import math\n\ndef twice(n):\n    """Twice."""\n    return 2 * n\n\n'
    'def quad(n):\n    """ Four times n.\n    >>> quad(1)\n    4\n    """\n',
    "entry_point": "quad",
    "canonical_solution": "    return twice(twice(n))\n",
    "test": "METADATA = {'a': 1}\n\ndef check(candidate):\n    assert "
    "candidate(1) == 4\n    assert "
    "True, 'debug'\n"
    "    x = twice(3)\n"
    "    for n in range(3):\n        assert candidate(n) == 4 * n\n    assert candidate(3) "
    "== 2 * x\n",
}
JAVA_TEST = """

class Main {
    public static boolean compare(Object obj1, Object obj2) {
        return obj1.equals(obj2);
    }

    public static void main(String[] args) throws Exception {
        List<String> x0 = Quad.quad(Arrays.asList("a List compare(b"));
        if (!(compare(x0, 4))) {
            throw new java.lang.Exception("case 0");
        }

        Integer x1 = Quad.quad(2);
        if (!(compare(x1, 8))) {
            throw new java.lang.Exception("case 1");
        }


}
}
"""
JAVA = {
    **PYTHON,
    "task_id": "HumanEval_java/7",
    "language": "java",
    "canonical_solution": None,
    "test": JAVA_TEST,
}
JS_TEST = """
const _ = require("lodash")

function compare(a, b){
    return _.isEqual(a, b)
}

var arg00 = 1;
var x0 = quad(arg00);
if(!compare(x0, 4)){
    throw 'Error'
}

var arg10 = 2;
var x1 = quad(arg10);
if(!compare(x1, 8)){
    throw 'Error'
}

"""
JAVASCRIPT = {
    **JAVA,
    "task_id": "HumanEval_javascript/7",
    "language": "javascript",
    "test": JS_TEST,
}
COLBENCH: dict[str, Any] = {
    "problem_description": "Add a fee to a price.",
    "ground_truth": "RATE = 2\n\ndef helped(x):\n    return x * RATE\n\n"
    "def with_fee(price, fee=1):\n    return helped(price) + fee\n",
    "test_cases": {"test1": "with_fee(3)", "test2": "with_fee(3, fee=with_fee(1))"},
}


def stage(folder: Path, **files: list[Mapping[str, Any]]) -> Staged:
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text(
            "".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8"
        )
    return BENCHMARK.data.stage(folder, "dialogues")


def label(dialog: Dialog, name: str) -> str | None:
    return dict(dialog.labels).get(name)


def test_a_task_waits_for_a_dialogue_with_each_persona_and_no_setting_plays_it(
    tmp_path: Path,
) -> None:
    staged = stage(tmp_path, HumanEval=[PYTHON])
    assert [dialog.dialog_id.split("/", 2)[2] for dialog in staged.dialogs] == [
        "intermediate/cs_student",
        "intermediate/hobbyist",
        "novice/non_cs_student",
        "novice/product_manager",
        "expert/senior_developer",
        "expert/software_engineer",
    ]
    assert not any(
        BENCHMARK.data.plays(setting, dialog)
        for setting in BENCHMARK.settings
        for dialog in staged.dialogs
    )


def test_python_s_check_falls_into_cases_that_stand_alone(tmp_path: Path) -> None:
    (problem,) = stage(tmp_path, HumanEval=[PYTHON]).problems
    cases = problem.instructions[0].suite.tests
    assert len(cases) == 3, "what asserts a constant is no case"
    assert problem.reference_code.endswith("def quad(n):\n    return twice(twice(n))\n")
    own: dict[str, Any] = {}
    exec("def quad(n): return 4 * n", own)  # without the prompt's helper, which cases bring along
    for case in cases:
        exec(case, own)
    exec("def quad(n): return 4 * n if n != 2 else 0", own)
    with pytest.raises(AssertionError):
        exec(cases[1], own)
    exec(cases[2], own)


def test_other_languages_are_told_the_reference_in_python_whichever_file_holds_it(
    tmp_path: Path,
) -> None:
    staged = stage(tmp_path, HumanEval_java=[JAVA], HumanEval_z=[JAVASCRIPT, PYTHON])
    assert [problem.problem_id for problem in staged.problems] == [
        JAVA["task_id"],
        JAVASCRIPT["task_id"],
        PYTHON["task_id"],
    ]
    java, javascript, python = staged.problems
    assert (java.reference_code, javascript.reference_code) == ("", "")
    told = {
        label(dialog, "python_reference")
        for dialog in staged.dialogs
        if dialog.problem_id != python.problem_id
    }
    assert told == {python.reference_code}
    assert [len(problem.instructions[0].suite.tests) for problem in (java, javascript)] == [2, 2]
    case = java.instructions[0].suite.tests[0]
    assert (
        'java.util.List<String> x0 = Quad.quad(java.util.Arrays.asList("a List compare(b"));'
        in case
    )
    assert "java.util.Objects.equals(x0, 4)" in case
    assert all('require("lodash")' in case for case in javascript.instructions[0].suite.tests)


def test_humaneval_s_folder_is_read_with_the_one_below_and_no_row_twice(tmp_path: Path) -> None:
    (tmp_path / "HumanEval.jsonl.gz").write_bytes(gzip.compress(json.dumps(PYTHON).encode()))
    below = tmp_path / "multilingual"
    below.mkdir()
    stage(below, HumanEval=[PYTHON], HumanEval_java=[JAVA])
    staged = BENCHMARK.data.stage(tmp_path, "dialogues")
    assert [problem.problem_id for problem in staged.problems] == [
        "HumanEval/7",
        "HumanEval_java/7",
    ]
    assert (staged.quarantined, staged.n_input) == ((), 2)


def test_colbench_s_calls_are_decided_by_its_function_under_another_name(tmp_path: Path) -> None:
    (problem,) = stage(tmp_path, train=[COLBENCH]).problems
    assert (problem.level, problem.prompt) == (
        "backend",
        "Add a fee to a price.\n\nSignature: `with_fee(price, fee=1)`",
    )
    cases = problem.instructions[0].suite.tests
    own: dict[str, Any] = {}
    exec("def helped(x): return 0\ndef with_fee(price, fee=1): return 2 * price + fee", own)
    for case in cases:
        exec(case, own)
    exec("def with_fee(price, fee=1): return 7", own)
    exec(cases[0], own)
    with pytest.raises(AssertionError):
        exec(cases[1], own)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (PYTHON | {"test": "def check(candidate):\n    pass\n"}, "unreadable_tests"),
        (JAVA | {"test": "class Main {}"}, "unreadable_tests"),
        (JAVASCRIPT | {"test": "compare(1, 1)"}, "unreadable_tests"),
        (JAVA | {"language": "scala"}, "unknown_language"),
        (COLBENCH | {"ground_truth": "def f(:"}, "unreadable_tests"),
        (COLBENCH | {"test_cases": {"test1": "other(1)"}}, "unreadable_tests"),
        (COLBENCH | {"test_cases": {}}, "wrong_type"),
        (COLBENCH | {"test_cases": ["with_fee(3)"]}, "listed_tests"),
        (
            COLBENCH | {"ground_truth": "async def with_fee(n, fee=1):\n    return n"},
            "async_function",
        ),
        (
            COLBENCH
            | {
                "ground_truth": (
                    "class with_fee:\n    def __init__(self, n, fee=1):\n        self.n = n"
                )
            },
            "class_under_test",
        ),
        (COLBENCH | {"problem_description": " "}, "blank_text"),
    ],
)
def test_a_row_that_cannot_be_staged_is_quarantined_with_its_reason(
    tmp_path: Path, row: dict[str, Any], reason: str
) -> None:
    staged = stage(tmp_path, rows=[row])
    assert ([bad.reason for bad in staged.quarantined], staged.n_input) == ([reason], 1)


def test_each_task_that_is_bundled_for_building_is_read() -> None:
    staged = BENCHMARK.data.stage(ROOT / "tasks/benchmarks/talk2code/tasks", "tasks")
    assert (len(staged.problems), staged.quarantined) == (6, ())
