"""Ids survive growth: what is added to a model from now on moves no id of before."""

import pytest
from pydantic import BaseModel

from schemas.base import Frozen, added_later, fields_of_id
from schemas.content_id import content_id
from schemas.run import Limits, ModelIdentity, RunSpec, Sampling

SUBJECT = ModelIdentity(provider="control", name="gold")
SPEC = RunSpec(
    benchmark="b",
    benchmark_version="1",
    setting="s",
    dataset_version="v",
    dataset_digest="d",
    subject=SUBJECT,
    sandbox="zygote",
)
FIRST = (
    (
        SPEC,
        "benchmark benchmark_version setting dataset_version dataset_digest episode_options "
        "scoring_options subject simulator"
        " judge sampling prompts samples seed sandbox limits runner_version",
    ),
    (SUBJECT, "provider name revision weights_digest chat_template"),
    (Sampling(), "temperature top_p max_tokens stop omit_reasoning"),
    (Limits(), "cpu_s wall_s memory_mb processes file_mb tmp_mb open_files output_kb"),
)
"""(value at its defaults, the fields that its ids were first made of)."""


class Kept(Frozen):
    """A model that ids were made of before it grew."""

    name: str
    size: int = 1


class Grown(Kept):
    """The same with a field more."""

    colour: str = added_later("")


def test_a_field_added_later_is_in_no_id_at_its_default():
    assert content_id(Grown(name="a")) == content_id(Kept(name="a"))
    assert content_id({"inside": [Grown(name="a")]}) == content_id({"inside": [Kept(name="a")]})


def test_any_other_value_of_it_makes_another_id():
    assert content_id(Grown(name="a", colour="red")) != content_id(Kept(name="a"))
    assert content_id(Grown(name="a", colour="red")) != content_id(Grown(name="a", colour="blue"))


def test_a_field_of_before_stays_in_every_id_at_its_default_too():
    assert fields_of_id(Grown(name="a")) == ("name", "size")
    assert content_id(Kept(name="a")) == content_id({"name": "a", "size": 1})


@pytest.mark.parametrize(("value", "first"), FIRST, ids=lambda one: type(one).__name__)
def test_ids_are_made_of_the_fields_that_they_were_first_made_of(value: BaseModel, first: str):
    assert fields_of_id(value) == tuple(first.split()), (
        "give a new field by `added_later`, or all kept dialogues are paid for again"
    )
