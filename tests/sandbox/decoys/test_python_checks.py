"""Which checks of a text can be altered, and how the altered text reads."""

import random

import pytest

from sandbox.decoys.edits import edited
from sandbox.decoys.python_checks import edits_of


def altered(text: str, kind: str) -> list[str]:
    return [edited(text, [one]) for one in edits_of(text, random.Random(1)) if one.kind == kind]


@pytest.mark.parametrize(
    ("text", "negated"),
    [
        ("assert f(3) == 4", "assert not (f(3) == 4)"),
        ("assert not f(3)", "assert (f(3))"),
        ("assert f(3), 'told'", "assert not (f(3)), 'told'"),
        ("self.assertTrue(f(3))", "self.assertFalse(f(3))"),
        ("self.assertIn(2, f(3))", "self.assertNotIn(2, f(3))"),
        ("mock.assert_called()", "mock.assert_not_called()"),
        ("if f(3) != 4: raise ValueError", "if not (f(3) != 4): raise ValueError"),
        (
            "with pytest.raises(ValueError):\n    f(3)",
            "with pytest.raises(StopAsyncIteration):\n    f(3)",
        ),
        ("self.assertRaises(KeyError, f, 3)", "self.assertRaises(StopAsyncIteration, f, 3)"),
        (
            "try:\n    f(3)\n    assert False\nexcept ValueError:\n    pass",
            "try:\n    f(3)\n    assert False\nexcept StopAsyncIteration:\n    pass",
        ),
    ],
)
def test_the_truth_of_a_check_is_turned_round(text: str, negated: str):
    assert negated in altered(text, "negation")


@pytest.mark.parametrize(
    ("text", "kept", "changed"),
    [
        ("assert f(3) == 4", "assert f(3) == ", "4"),
        ("assert 'a' == f('b')", " == f('b')", "'a'"),
        ("assert abs(f(3) - 4.5) < 1e-6", "< 1e-6", "4.5"),
        ("assert f(1).startswith('Hello')", "assert f(1).startswith(", "'Hello'"),
        ("import numpy as np\nassert np.allclose(f(7), [7.5])", "np.allclose(f(7), [", "7.5"),
        ("want = 4711\nassert f(1) == want", "assert f(1) == want", "4711"),
        ("for x, y in [(1, 22)]:\n    assert f(x) == y", "for x, y in [(1, ", "22"),
        ("m.assert_called_once_with('hello')", "m.assert_called_once_with(", "hello"),
        ("assert isinstance(f(1), int)", "assert isinstance(f(1), ", "int"),
        ("match f(1):\n    case 4711: pass", "match f(1):\n    case ", "4711"),
        (
            "import subprocess\nsubprocess.run([exe, '-c', 'assert f(1) == 4711'], check=True)",
            "subprocess.run([exe",
            "4711",
        ),
        ("run('''\n>>> f(3)\n4\n''')", ">>> f(3)", "\n4\n"),
        (
            "@pytest.mark.parametrize('x, y', [(1, 22)])\ndef test_f(x, y):\n    assert f(x) == y",
            "assert f(x) == y",
            "22",
        ),
    ],
)
def test_an_expected_constant_becomes_another_one(text: str, kept: str, changed: str):
    texts = altered(text, "constant")
    assert texts
    assert any(kept.replace("\n", "\\n") in one.replace("\n", "\\n") for one in texts)
    assert all(one != text for one in texts)
    assert any(changed not in one for one in texts)


def test_what_code_under_test_is_given_stays():
    for text in altered("assert f(3, 'in', [7]) == 4", "constant"):
        assert text.startswith("assert f(3, 'in', [7]) == ")


def test_a_value_that_differs_from_one_constant_differs_from_others():
    assert altered("assert f(3) != 4", "constant") == []


@pytest.mark.parametrize(
    ("text", "reach"),
    [
        ("assert f(1) == 2", "certain"),
        ("def check(g):\n    assert g(1) == 2", "certain"),
        ("with f(1) as r:\n    assert r == 2", "held"),
        ("with self.subTest(1):\n    assert f(1) == 2", "certain"),
        ("for x in f(1):\n    assert x == 2", "maybe"),
        ("def helper():\n    assert f(1) == 2", "maybe"),
        ("try:\n    f(1)\nexcept ValueError as e:\n    assert str(e) == 'no'", "maybe"),
    ],
)
def test_how_certain_it_is_that_a_check_is_reached(text: str, reach: str):
    assert {one.reach for one in edits_of(text, random.Random(1))} == {reach}


def test_a_text_that_is_not_python_has_no_check():
    assert edits_of("assert f(1 ==", random.Random(1)) == []
