"""Scores of an Inspect AI sample: metrics, tests and ratings of an episode."""

from collections.abc import Iterator, Sequence
from typing import Any

from schemas.episode import Score
from schemas.verdict import JudgeVerdict, Outcome, TestVerdict

TESTS = "tests"
"""Name of the score that holds the tests of a sample: their number by outcome, and their output."""
_TEST_FIELDS = {
    *("turn", "instruction_id", "outcome", "reason", "detail"),
    *("duration_s", "n_cases", "n_passed"),
}
_RUN_FIELDS = {"run_id", "benchmark", "model", "episode_id"}


def sample_scores(
    make_score: Any,
    scores: Sequence[Score],
    tests: Sequence[TestVerdict],
    ratings: Sequence[JudgeVerdict],
) -> Iterator[tuple[str, Any]]:
    """Yield the scores of a dialogue: the mean of each metric, then its tests and its ratings.

    A metric without a value yields nothing here. It is in the sample's metadata.
    """
    yield from _metric_scores(make_score, scores)
    if tests:
        yield TESTS, _test_score(make_score, tests)
    for rubric in dict.fromkeys(rating.rubric for rating in ratings):
        score = _rating_score(make_score, [row for row in ratings if row.rubric == rubric])
        if score is not None:
            yield f"judge {rubric}".strip(), score


def _metric_scores(make_score: Any, scores: Sequence[Score]) -> Iterator[tuple[str, Any]]:
    for metric in dict.fromkeys(score.metric for score in scores):
        rows = [score for score in scores if score.metric == metric]
        values = [row.value for row in rows if row.value is not None]
        if values:
            details = [
                row.model_dump(
                    mode="json", include={"turn", "instruction_id", "value", "unscored_reason"}
                )
                for row in rows
            ]
            yield (
                metric,
                make_score(
                    value=sum(values) / len(values), metadata={"values": details, "n": len(values)}
                ),
            )


def _test_score(make_score: Any, tests: Sequence[TestVerdict]) -> Any:
    counts = {outcome.value: sum(test.outcome is outcome for test in tests) for outcome in Outcome}
    output = "\n\n".join(
        f"turn {t.turn}, {t.instruction_id}: {t.outcome.value}\n{t.detail}".strip() for t in tests
    )
    rows = [test.model_dump(mode="json", include=_TEST_FIELDS) for test in tests]
    return make_score(value=counts, explanation=output, metadata={"tests": rows})


def _rating_score(make_score: Any, rows: Sequence[JudgeVerdict]) -> Any:
    """Return the score of one rubric's ratings, or None if no rating has a value."""
    in_turns = len({row.turn for row in rows}) > 1
    values = {
        f"turn {row.turn}: {row.dimension}" if in_turns else row.dimension: value
        for row in rows
        if (value := row.label if row.value is None else row.value) is not None
    }
    if not values:
        return None
    details = [row.model_dump(mode="json", exclude=_RUN_FIELDS) for row in rows]
    reasons = "\n\n".join(dict.fromkeys(row.raw for row in rows if row.raw))
    return make_score(value=values, explanation=reasons, metadata={"ratings": details})
