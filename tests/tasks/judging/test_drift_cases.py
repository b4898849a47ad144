"""The bundled cases of each rubric: enough of them, of all kinds, and asked as the rubric asks."""

from collections.abc import Iterator

import pytest

from tasks.benchmarks.registry import BENCHMARKS
from tasks.judging.rubric import Rubric, drift_cases

FEWEST = 8


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
