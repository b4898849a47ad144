"""HumanEval, MBPP and MINT in BigCodeBench's form."""

from pathlib import Path
from typing import Any

import pytest

from schemas.problem import Problem
from tasks.benchmarks.convcode.raw_row import module_of_asserts, module_of_check
from tasks.benchmarks.convcode.stage import stage
from tests.tasks.benchmarks.convcode.raw_rows import asserts_row, check_row, write_rows


def staged_one(row: dict[str, Any], version: str, folder: Path) -> Problem:
    return stage(write_rows(folder / "rows.jsonl", row), version).problems[0]


def test_a_check_of_asserts_becomes_one_method_for_each() -> None:
    test = """
METADATA = {'author': 'jt'}

def near(a, b):
    return abs(a - b) < 1e-6

def check(candidate):
    \"\"\"Some tests.\"\"\"
    assert candidate(1, 'a b') == [1]
    assert candidate(2, "") == [2], "message"
    assert near(candidate(3, "c")[0], 3)
    assert candidate(4, "") != candidate(5, "")
    assert True, "always"
    assert 1 < candidate(6, "")[0] == 6
"""
    assert module_of_check(test, "wrap") == (
        "import unittest\n"
        "METADATA = {'author': 'jt'}\n\n"
        "def near(a, b):\n    return abs(a - b) < 1e-06\n\n"
        "class TestCases(unittest.TestCase):\n\n"
        "    def test_case_1(self):\n        self.assertEqual(wrap(1, 'a b'), [1])\n\n"
        "    def test_case_2(self):\n        self.assertEqual(wrap(2, ''), [2], 'message')\n\n"
        "    def test_case_3(self):\n        assert near(wrap(3, 'c')[0], 3)\n\n"
        "    def test_case_4(self):\n        assert wrap(4, '') != wrap(5, '')\n\n"
        "    def test_case_5(self):\n        assert 1 < wrap(6, '')[0] == 6\n"
    )


def test_any_other_check_becomes_one_method() -> None:
    test = "def check(candidate):\n    for n in range(3):\n        assert candidate(n) == n\n"
    assert module_of_check(test, "same") == (
        "import unittest\n\n"
        "def check(candidate):\n    for n in range(3):\n        assert candidate(n) == n\n\n"
        "class TestCases(unittest.TestCase):\n\n"
        "    def test_case_1(self):\n        check(same)\n"
    )


def test_a_text_of_several_statements_is_one_method_and_set_up_comes_first() -> None:
    assert module_of_asserts(["x = one()\nassert x == 1", "assert one()"], "import math") == (
        "import unittest\nimport math\n\n"
        "class TestCases(unittest.TestCase):\n\n"
        "    def test_case_1(self):\n        x = one()\n        self.assertEqual(x, 1)\n\n"
        "    def test_case_2(self):\n        assert one()\n"
    )


@pytest.mark.parametrize(
    "test",
    [
        "def check(): pass",
        "def check(a, b):\n    assert a == b",
        "x = 1",
        "def check(candidate):\n    assert True",
    ],
)
def test_a_text_without_a_check_or_without_a_test_is_refused(test: str) -> None:
    with pytest.raises(ValueError):
        module_of_check(test, "f")


def test_a_humaneval_row_asks_to_complete_the_function(tmp_path: Path) -> None:
    problem = staged_one(check_row(), "humaneval", tmp_path)
    assert problem.problem_id == "HumanEval/0"
    assert problem.level == "all"
    assert problem.prompt.startswith("Complete the Python function `one` ")
    assert '```python\ndef one():\n    """Give one."""\n```' in problem.prompt
    assert problem.reference_code == 'def one():\n    """Give one."""\n    return 1\n'


def test_mint_s_prompts_lack_their_last_line_end(tmp_path: Path) -> None:
    problem = staged_one(check_row(prompt='def one():\n    """Give one."""'), "mint", tmp_path)
    assert problem.reference_code == 'def one():\n    """Give one."""\n    return 1\n'
    assert problem.level == "humaneval"


def test_an_mbpp_row_shows_its_first_test_only(tmp_path: Path) -> None:
    problem = staged_one(asserts_row(), "mbpp", tmp_path)
    assert problem.problem_id == "MBPP/7"
    assert 'Write a function to give one.\nassert one() == 1\n"""' in problem.prompt
    assert "one() + one()" not in problem.prompt
    assert problem.reference_code == "def one():\r\n    return 1"
    assert "test_case_2" in problem.instructions[0].suite.tests[0]


def test_mint_s_own_prompt_is_taken_where_there_is_one(tmp_path: Path) -> None:
    problem = staged_one(asserts_row(prompt='"""\nGive one, says MINT.\n"""\n'), "mint", tmp_path)
    assert '```python\n"""\nGive one, says MINT.\n"""\n```' in problem.prompt
    assert problem.level == "mbpp"


@pytest.mark.parametrize(
    ("reason", "row"),
    [
        ("other_language", check_row(language="java")),
        ("wrong_type", check_row(entry_point="os.system")),
        ("wrong_type", check_row(canonical_solution=None)),
        ("wrong_type", asserts_row(task_id="7")),
        ("wrong_type", asserts_row(test_list=[])),
        ("bad_tests", asserts_row(test_list=["assert one( == 1"])),
        ("bad_tests", check_row(test="def check(candidate):\n    assert True\n")),
        ("bad_tests", check_row(test="check = print")),
    ],
)
def test_a_bad_row_is_quarantined_with_its_reason(
    reason: str, row: dict[str, Any], tmp_path: Path
) -> None:
    (bad,) = stage(write_rows(tmp_path / "rows.jsonl", row), "mbpp").quarantined
    assert bad.reason == reason
    assert bad.detail


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    ("version", "n_problems"), [("humaneval", 164), ("mbpp", 974), ("mint", 45 + 91)]
)
def test_the_public_sets_are_staged_whole(version: str, n_problems: int, shared_data: Path) -> None:
    staged = stage(shared_data, version)
    assert (len(staged.problems), staged.quarantined, staged.n_input) == (
        n_problems,
        (),
        n_problems,
    )
    assert all(not Path(problem.source_file).is_absolute() for problem in staged.problems)
