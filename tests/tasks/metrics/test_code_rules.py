"""MemoryCode's rules on hand-made programs, in the original's reading and in UniDial-EvalKit's."""

from typing import Any

import pytest

from tasks.metrics.code_rules import code_match

PROGRAM = '''```python
import hashlib
from typing import List

@trace
class Shelf_1:
    """Holds books."""

    def __init__(self, books: List):
        self.at_books = books

    def count_o(self):
        n_books = len(self.at_books)  # all of them
        return n_books

def a_sum(x_one: int, x_two: int) -> int:
    """Adds."""
    try:
        return x_one + x_two
    except TypeError:
        assert False
```'''


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (["class", r".*_\d$"], 1.0),
        (["function", "^a_.*"], 1.0),
        (["function", "^b_.*"], 0.0),
        (["method", ".*_o$"], 1.0),
        (["attribute", "^at_.*"], 1.0),
        (["variable", "^n_.*"], 1.0),
        (["function argument", "^x_.*"], 1.0),
        (["function annotation", True], 1.0),
        (["method annotation", True], 0.0),
        (["function try", True], 1.0),
        (["function assert", True], 1.0),
        (["method try", True], 0.0),
        (["function docstring", True], 1.0),
        (["method docstring", True], 0.0),
        (["comment", True], 1.0),
        (["comment", False], 0.0),
        (["import", ["hashlib", True]], 1.0),
        (["import", ["secrets", True]], 0.0),
        (["class decorator", ["trace", True]], 1.0),
        (["function decorator", ["trace", True]], 0.0),
        (["function decorator", ["trace", False]], 1.0),
    ],
)
def test_a_rule_holds_for_all_objects_of_its_kind(rule: list[Any], kept: float) -> None:
    assert code_match(PROGRAM, rule) == kept


def test_several_rules_give_the_share_that_is_kept() -> None:
    assert code_match(PROGRAM, [["function", "^a_.*"], ["function", "^b_.*"], ["comment", True]]) == pytest.approx(2 / 3)


def test_the_two_readings_differ_where_objects_are_absent() -> None:
    """A program without methods: the original leaves the rule out, the toolkit counts it as broken."""
    code = "def a_f(): pass"
    assert code_match(code, ["method", ".*_o$"]) is None
    assert code_match(code, ["method", ".*_o$"], "ude") == 0.0
    both = [["method", ".*_o$"], ["function", "^a_.*"]]
    assert (code_match(code, both), code_match(code, both, "ude")) == (1.0, 0.5)


def test_the_toolkit_never_finds_the_full_name_of_an_import() -> None:
    assert code_match("import hashlib", ["import", ["hashlib", True]]) == 1.0
    assert code_match("import hashlib", ["import", ["hashlib", True]], "ude") == 0.0


@pytest.mark.parametrize("answer", ["", "I cannot write code.", "```python\ndef f(:\n```"])
def test_what_is_no_program_keeps_no_rule(answer: str) -> None:
    assert code_match(answer, ["function", ".*"]) == 0.0


def test_the_code_is_the_first_block_tagged_python_else_the_first_block() -> None:
    assert code_match("```\nx = (\n```\n```python\ndef a_f(): pass\n```", ["function", "^a_"]) == 1.0
    assert code_match("Here:\n```\ndef a_f(): pass\n```", ["function", "^a_"]) == 1.0
