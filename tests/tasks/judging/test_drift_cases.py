"""The bundled cases of each rubric: enough of them, of all kinds, and asked as the rubric asks."""

from collections.abc import Iterator

import pytest

from tasks.benchmarks.registry import BENCHMARKS
from tasks.judging.rubric import Rubric, drift_cases

FEWEST = 8
DIGESTS = {
    "information_seeking": "7d2cdf50db05f886ba11a1d502d7a16e",
    "naturalness": "1e88c97fc192e0ed152f855df04ac168",
    "coherence": "8654d0d5dd2bde55c167bfc1761aa867",
    "user_turn": "d91e1a8a6b535ceb060f9c40bdc068cd",
    "experience": "fae1c492379936842943e4112c3a2ff9",
    "entities": "8221ae50e64af5abe473948e9d13036f",
    "user_level": "7d15f3b5ceac80bbdc48d1042d9bcae9",
    "expansion_evaluation": "2d4b2ab111a180b33c1d406dcb5189e7",
    "refinement_single_evaluation": "e99706c103c63113b7ee1a67dc905846",
    "refinement_multi_evaluation": "eb874d7c819d02767882239e8bd01bc3",
    "mt_bench_evaluation": "e7c68d6b14601d69f3c2d4b4406362df",
    "mt_bench_101": "c5e6a02c6708025f050878278a05c196",
    "math_chat_error_analysis": "4cb53a99a4b3a40766b0d62b440da552",
    "math_chat_p2p_generation": "d552f63204d101b2acc8de976e03f401",
    "multi_challenge_evaluation": "cdc4e525a2a9f044a4e96440ddfe7a1c",
    "longmemeval": "e85e6c9e5610bbcae3523fd4c7af9ceb",
    "safedialbench": "6288dd8c01b48e15c66f8c092717e203",
    "general": "417c2fee14e3f2e043d2b20f9097b20e",
}
"""Digests of rubrics whose judgements are stored: prompt and answer schema, with the docstrings of
the schema's classes. Another digest asks for all judgements again, under other run ids.
"""


def rubrics() -> Iterator[tuple[str, Rubric]]:
    for name in BENCHMARKS.built_in:
        judging = BENCHMARKS.load(name).judging
        for rubric in judging.rubrics.values() if judging else ():
            yield f"tasks.benchmarks.{name}", rubric


@pytest.mark.parametrize(
    ("package", "rubric"), [pytest.param(*one, id=f"{one[0]}.{one[1].name}") for one in rubrics()]
)
def test_cases_reach_over_the_scale_and_no_two_are_alike(package: str, rubric: Rubric) -> None:
    cases = drift_cases(package, rubric.name)
    assert len(rubric.drift) == len(cases) >= FEWEST
    texts = [message.content for messages in rubric.drift for message in messages]
    assert len({*texts}) == len(cases)
    expected = [case["expected"] for case in cases]
    if rubric.words:
        assert {*expected} == {*rubric.words}
    elif rubric.name != "entities":  # it counts what it lists
        for dimension in expected[0] if isinstance(expected[0], dict) else ("",):
            rated = [one[dimension] if isinstance(one, dict) else one for one in expected]
            lowest, highest = (
                rubric.ranges.get(dimension)
                or next(iter(rubric.ranges.values()), None)
                or scale(rubric)
            )
            assert (min(rated), max(rated)) == (lowest, highest)
    assert not any("expected" in text.split() for text in texts)


def scale(rubric: Rubric) -> tuple[int, int]:
    """The ends that the answer's form states: those of `score`, or of each rating."""
    stated = rubric.schema["properties"]
    rating = stated.get("score") or stated["identification"]
    return rating["minimum"], rating["maximum"]


def test_the_texts_that_judges_read_stay() -> None:
    assert {rubric.name: rubric.digest for _, rubric in rubrics()} == DIGESTS
