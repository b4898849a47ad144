"""Equal content has equal ids, in every process; different content has different ones."""

import json
import math
import os
import random
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.base import Frozen
from schemas.content_id import ID_LENGTH, canonical_json, content_id, rows_id, text_digest
from schemas.run import RunSpec
from tests.schemas.strategies import TEXT, models

ROOT = Path(__file__).resolve().parents[2]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def reordered(value: Any, order: random.Random, *, tuples: bool) -> Any:
    """The same content: keys in another order, lists as tuples."""
    if isinstance(value, dict):
        items = [(key, reordered(item, order, tuples=tuples)) for key, item in value.items()]
        order.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        inner = [reordered(item, order, tuples=tuples) for item in value]
        return tuple(inner) if tuples else inner
    return value


def typed(value: Any) -> Any:
    """A value under Python's equality that tells True from 1 and 0.0 from False, but not 1 from
    1.0.
    """
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return ("dict", {key: typed(item) for key, item in value.items()})
    return [typed(item) for item in value] if isinstance(value, (list, tuple)) else value


@given(value=PLAIN, order=st.randoms(use_true_random=False), tuples=st.booleans())
def test_key_order_and_kind_of_sequence_do_not_matter(
    value: Any, order: random.Random, tuples: bool
):
    assert content_id(reordered(value, order, tuples=tuples)) == content_id(value)


@given(a=PLAIN, b=PLAIN)
def test_ids_are_equal_exactly_where_contents_are(a: Any, b: Any):
    assert (content_id(a) == content_id(b)) == (typed(a) == typed(b))
    assert (canonical_json(a) == canonical_json(b)) == (typed(a) == typed(b))


@given(value=PLAIN)
def test_canonical_json_is_json_of_the_same_content(value: Any):
    assert typed(json.loads(canonical_json(value))) == typed(value)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (["a", "b"], ["ab"]),
        (["a,b"], ["a", "b"]),
        (['a","b'], ["a", "b"]),
        ([["a"], "b"], ["a", ["b"]]),
        ({"a": "b"}, ["a", "b"]),
        ({"a": None}, {}),
        ("", None),
        ([], [[]]),
        (True, 1),
        ("1", 1),
        ("null", None),
        ("é", "e\u0301"),
        ("a", "a "),
        ("\ud800", "?"),
        ("\ud800", "\udc00"),
        (0.1 + 0.2, 0.3),
        (2**53, 2**53 + 1),
    ],
)
def test_what_looks_alike_differs(a: Any, b: Any):
    assert content_id(a) != content_id(b)


@pytest.mark.parametrize(("a", "b"), [(1, 1.0), (0.0, -0.0), ((1, 2), [1, 2]), (1e20, 10**20)])
def test_one_number_has_one_form(a: Any, b: Any):
    assert content_id(a) == content_id(b)


class Colour(Enum):
    RED = "red"


class Painted(Frozen):
    colour: Colour
    times: tuple[int, ...] = ()


def test_models_and_enums_are_their_plain_content():
    assert content_id(Painted(colour=Colour.RED, times=(1,))) == content_id(
        {"times": [1], "colour": "red"}
    )


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [{1, 2}]}, r"value\.a\[0\] is a set"),
        ({"b": b"x"}, r"value\.b is a bytes"),
        ({1: "x"}, "value has the key 1"),
        (object(), "object"),
    ],
)
def test_what_has_no_canonical_form_is_refused_and_its_place_named(value: Any, place: str):
    with pytest.raises(TypeError, match=place):
        content_id(value)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(number: float):
    with pytest.raises(ValueError, match=r"value\.t is .*only finite"):
        canonical_json({"t": number})


def test_ids_are_hex_of_a_fixed_length():
    for found in (content_id({}), text_digest("")):
        assert len(found) == ID_LENGTH
        assert int(found, 16) >= 0


def test_an_id_is_the_one_it_always_was():
    assert content_id({"b": (1, 2.0, None), "a": "ü"}) == "64aea23f349302d0adbdff706470f7c2"


ELSEWHERE = """
import json, sys
from schemas.content_id import content_id
from schemas.run import RunSpec
for line in sys.stdin:
    job = json.loads(line)
    spec = RunSpec.model_validate_json(job["spec"])
    print(content_id(job["plain"]), spec.run_id, spec.episode_id("row", 0))
"""


@pytest.mark.slow
@settings(max_examples=3)
@given(
    specs=st.lists(models(RunSpec), min_size=8, max_size=8),
    plain=st.lists(PLAIN, min_size=8, max_size=8),
)
@pytest.mark.parametrize("hash_seed", ["0", "4242", "random"])
def test_another_process_with_another_hash_seed_gives_the_same_ids(
    hash_seed: str, specs: list[RunSpec], plain: list[Any]
):
    jobs = [
        json.dumps({"spec": spec.model_dump_json(), "plain": value})
        for spec, value in zip(specs, plain, strict=True)
    ]
    there = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input="\n".join(jobs),
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    here = [
        f"{content_id(value)} {spec.run_id} {spec.episode_id('row', 0)}"
        for spec, value in zip(specs, plain, strict=True)
    ]
    assert there.stdout.splitlines() == here


@given(st.lists(PLAIN, max_size=4))
def test_rows_that_come_one_by_one_have_the_id_of_their_list(rows: list[Any]):
    assert rows_id(iter(rows)) == content_id(rows)
