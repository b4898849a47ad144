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
        (["function assert", True], 0.0),
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


CORNERS = """
import os as system, json
from secrets import token

class Shelf:
    @property
    @log.traced(level=1)
    def count_o(self):
        def inner_o(): ...
        if self:
            assert self
            self.x_late = 1

    def __init__(self):
        self.at_one, self.at_two = 1, 2
        self.at_books = 1
        self.late = 2
        if True:
            self.nested = 3

    def __len__(self): return 0

    async def fetch(self): n_kept = 1

def a_f(x_one, other, *rest, named=1):
    n_a, (deep, n_b) = 1, (2, 3)
    n_sum: int = 0
    more += 1
    for item in rest: ...
    assert n_a
    text = "# no comment"
"""


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (
            ["attribute", "^at_.*"],
            1.0,
        ),  # the first attribute counts, of statements right below `__init__`
        (["attribute", "^late"], 0.0),
        (["function argument", "^x_.*"], 1.0),  # the first argument counts
        (
            ["method", ".*_o$"],
            1.0,
        ),  # neither special methods nor coroutines, but functions within methods
        (["variable", "^(n_|text)"], 1.0),  # neither loops, nor `+=`, nor a tuple within a tuple
        (["function assert", True], 1.0),
        (["method assert", False], 1.0),  # one within `if` is none
        (["method decorator", ["traced", True]], 0.0),  # `inner_o` has none
        (["import", ["os", True]], 1.0),
        (["import", ["secrets", True]], 0.0),  # `from` imports are none
        (["import", ["token", False]], 1.0),
        (["comment", True], 1.0),  # a sign within a string counts
    ],
)
def test_objects_are_those_of_the_original_scorer(rule: list[Any], kept: float) -> None:
    assert code_match(CORNERS, rule) == kept


def test_several_rules_give_the_share_that_is_kept() -> None:
    assert code_match(
        PROGRAM, [["function", "^a_.*"], ["function", "^b_.*"], ["comment", True]]
    ) == pytest.approx(2 / 3)


def test_the_two_readings_differ_where_objects_are_absent() -> None:
    """A program without methods: the original leaves the rule out, the toolkit counts it as
    broken.
    """
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
    assert (
        code_match("```\nx = (\n```\n```python\ndef a_f(): pass\n```", ["function", "^a_"]) == 1.0
    )
    assert code_match("Here:\n```\ndef a_f(): pass\n```", ["function", "^a_"]) == 1.0
