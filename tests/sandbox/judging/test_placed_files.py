"""An answer takes a definition's place in a file, and tests are added where their node ids say."""

import pytest

from sandbox.judging.runners.programs import definition_lines, placed, with_answer, with_tests
from schemas.problem import AddedTest, Definition, Placing

FILE = """import os


class Queue:
    @property
    def size(self):
        return 1

    def put(self, item):
        '''Put it.'''
        return item

    def get(self):
        return None


def put(item):
    return item
"""


def test_an_answer_takes_the_place_of_the_lines_with_their_indentation() -> None:
    answer = "def put(self, item):\r\n    return [item]\r\n\r\n".replace("\r\n", "\n")
    text = with_answer(FILE, answer, Definition(name="Queue.put", first_line=9, last_line=11))
    assert text == FILE.replace(
        "        '''Put it.'''\n        return item\n\n", "        return [item]\n\n", 1
    )


@pytest.mark.parametrize(
    ("name", "near", "lines"),
    [
        ("Queue.put", 1, (9, 11)),
        ("Queue.get", 40, (13, 14)),
        ("put", 30, (17, 18)),
        ("put", 8, (9, 11)),
    ],
)
def test_where_the_lines_are_others_the_nearest_definition_of_that_name_is_found(
    name: str, near: int, lines: tuple[int, int]
) -> None:
    assert (
        definition_lines(FILE, Definition(name=name, first_line=near, last_line=near + 1)) == lines
    )


def test_a_file_without_the_definition_is_another_one() -> None:
    with pytest.raises(LookupError, match=r"Queue\.pop"):
        definition_lines(FILE, Definition(name="Queue.pop", first_line=9, last_line=11))
    with pytest.raises(LookupError, match="not Python"):
        definition_lines("def f(:", Definition(name="g", first_line=1, last_line=1))
    with pytest.raises(LookupError, match=r"no file queue\.py"):
        placed(
            {},
            "queue.py",
            "",
            Placing(definition=Definition(name="put", first_line=1, last_line=1)),
        )


TESTS = "class TestQueue:\n    def test_put(self):\n        assert True\n\n\ndef test_alone(): pass"


def test_a_test_goes_to_the_end_of_its_class_or_of_the_file() -> None:
    added = (
        AddedTest(node_id="t.py::TestQueue::test_more", text="def test_more(self):\n    assert 1"),
        AddedTest(node_id="t.py::test_last", text="def test_last(): pass\n"),
        AddedTest(node_id="t.py::test_broken", text="def test_broken(:"),
        AddedTest(node_id="gone.py::test_nowhere", text="def test_nowhere(): pass"),
    )
    changed = with_tests({"t.py": TESTS}, added)
    assert changed == {
        "t.py": "class TestQueue:\n    def test_put(self):\n        assert True\n\n    def "
        "test_more(self):\n        assert 1\n"
        "\n\ndef test_alone(): pass\n\n\ndef test_last(): pass\n"
    }


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    files = {"q.py": b"# \xff\ndef put(item):\n    return 1\n", "data.bin": b"\x00\xff"}
    made = placed(
        files,
        "q.py",
        "def put(item): return 2",
        Placing(definition=Definition(name="put", first_line=2, last_line=3)),
    )
    assert made == {"q.py": b"# \xff\ndef put(item): return 2\n", "data.bin": b"\x00\xff"}


@pytest.mark.parametrize(
    "mark", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
)
def test_lines_are_python_s_own(mark: str) -> None:
    """A form feed above a definition moves nothing, nor does one in an answer's text."""
    above = f"PARTS = 'a{mark}b{mark}c'\n\nclass Queue:\n"
    method = "    def put(self, item):\n        return item\n"
    answer = f"def put(self, item):\n    return 'x{mark}y'\n"
    given = with_answer(
        above + method + "LAST = 1\n",
        answer,
        Definition(name="Queue.put", first_line=40, last_line=41),
    )
    assert given == f"{above}    def put(self, item):\n        return 'x{mark}y'\nLAST = 1\n"
    added = AddedTest(node_id="t.py::Queue::test_more", text=answer.replace("put", "test_more"))
    tested = with_tests({"t.py": above + method + "LAST = 1\n"}, [added])
    assert tested == {
        "t.py": (
            f"{above}{method}\n    def test_more(self, item):\n        return 'x{mark}y'\nLAST = "
            "1\n"
        )
    }
