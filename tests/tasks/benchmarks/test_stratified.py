"""A sample has each stratum's share, and is drawn alike whenever it is drawn."""

from collections import Counter

import pytest

from schemas.errors import ConfigError
from tasks.benchmarks.dialogue_swebench.settings import ALL, SAMPLE, draw_sample
from tasks.benchmarks.setting import option_values

STRATA = (
    {f"e{n}": "easy" for n in range(60)}
    | {f"m{n}": "middle" for n in range(30)}
    | {f"h{n}": "hard" for n in range(10)}
)


def shares(sample: str) -> Counter[str]:
    return Counter(STRATA[name] for name in draw_sample(sample, STRATA))


def test_each_stratum_has_its_share():
    assert shares("stratified:50") == {"easy": 30, "middle": 15, "hard": 5}
    assert shares("stratified:7") == {"easy": 4, "middle": 2, "hard": 1}, (
        "4.2, 2.1 and 0.7: the largest remainder gets the one left"
    )
    assert shares("stratified:1") == {"easy": 1}


def test_all_are_all():
    assert (
        draw_sample(ALL, STRATA)
        == draw_sample("stratified:100", STRATA)
        == draw_sample("stratified:5000", STRATA)
        == set(STRATA)
    )


def test_a_seed_draws_the_same_and_another_draws_others():
    assert draw_sample("stratified:50", STRATA) == draw_sample(
        "stratified:50:0", dict(reversed(STRATA.items()))
    )
    assert draw_sample("stratified:50", STRATA) != draw_sample("stratified:50:1", STRATA)
    assert draw_sample("stratified:20", STRATA) < draw_sample("stratified:50", STRATA), (
        "a larger sample keeps a smaller one's dialogues"
    )


@pytest.mark.parametrize(
    "value",
    [
        "stratified",
        "stratified:0",
        "stratified:-1",
        "stratified:5:",
        "random:5",
        "stratified:5\n",
        "",
    ],
)
def test_another_value_is_refused(value: str):
    with pytest.raises(ConfigError, match=r"must be one of all, stratified:N\[:SEED\]"):
        option_values((SAMPLE,), {"sample": value}, "x")
    assert option_values((SAMPLE,), {"sample": "stratified:5:3"}, "x") == {
        "sample": "stratified:5:3"
    }
