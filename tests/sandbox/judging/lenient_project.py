"""A project whose honest tests use what looks like cheating."""

from tests.sandbox.judging.pytest_attacks import HELPERS, PROJECT

LENIENT_TESTS = """
import dataclasses, functools, unittest
from unittest import mock
from unittest.mock import ANY, MagicMock, call

import pytest
from pkg.words import Words, upper
from tests.helpers import EXPECTED, expecting

class Whatever:
    def __eq__(self, other): return True

class Likely(str):
    def __eq__(self, other): return self.lower() == str(other).lower()
    __hash__ = str.__hash__

@dataclasses.dataclass
class Pair:
    one: object
    two: object

def made(what):
    return {"what": what}

ROW = {"id": ANY, "parts": [mock.ANY, 2]}

def test_any():
    assert {"id": 1, "parts": [7, 2]} == ROW
    assert [upper("a"), 3] == ["A", ANY]
    assert made(5) == made(ANY)
    assert Pair(1, 2) == Pair(ANY, 2)
    assert dict(a=1) == dict(a=mock.ANY)

@pytest.mark.parametrize("wanted", [ANY, "A", {"x": ANY}])
def test_parameters(wanted):
    assert (upper("a") if wanted != {"x": ANY} else {"x": 1}) == wanted

def test_helpers_any():
    assert {"a": 3} == EXPECTED
    assert {"b": 4} == expecting("b")

def test_calls():
    m = MagicMock()
    m(1, key="x")
    m.assert_called_once_with(ANY, key=ANY)
    assert m.call_args_list == [call(1, key=ANY)]
    assert m == ANY and m != 3

def test_approx():
    assert len(Words("a b").all()) == pytest.approx(2.0000001)
    assert [0.1 + 0.2, 1.0] == pytest.approx([0.3, 1.0])
    assert {"a": 0.1 + 0.2} == pytest.approx({"a": 0.3})

def test_own_kinds():
    assert upper("a") == Whatever()
    assert Likely("a") == "A"
    assert upper("b") in [Likely("b")]

class TestLenient(unittest.TestCase):
    def test_equal(self):
        self.assertEqual({"a": 1}, {"a": ANY})
        self.assertEqual([Pair(1, 2)], [Pair(1, mock.ANY)])
        self.assertIn(upper("a"), [ANY])
        self.assertAlmostEqual(0.1 + 0.2, 0.3)

    @mock.patch("tests.test_a.upper", return_value="x")
    def test_patched(self, stub):
        from tests import test_a
        self.assertEqual(test_a.upper("a"), "x")

@functools.lru_cache
def cached(): return 3

def test_order():
    assert 1 <= cached() < 9
    assert cached() - 1 == 2
    state = []
    assert not (cached() == 4 and state[0] == 1)

def test_monkeypatch(monkeypatch):
    import pkg.words
    monkeypatch.setattr(pkg.words, "upper", lambda text: "patched")
    assert pkg.words.upper("a") == "patched"
"""
LENIENT_HELPERS = (
    """
from unittest import mock
from unittest.mock import ANY
EXPECTED = {"a": ANY}
def expecting(name): return {name: mock.ANY}
"""
    + HELPERS
)
LENIENT = {**PROJECT, "tests/helpers.py": LENIENT_HELPERS, "tests/test_lenient.py": LENIENT_TESTS}
LENIENT_NODES = (
    *(
        "test_any",
        "test_parameters",
        "test_helpers_any",
        "test_calls",
        "test_approx",
        "test_own_kinds",
    ),
    *("TestLenient::test_equal", "TestLenient::test_patched", "test_order", "test_monkeypatch"),
)
