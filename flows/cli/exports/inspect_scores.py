"""Scores of an Inspect AI sample: metrics, tests and ratings of an episode."""

from collections.abc import Iterator, Sequence
from typing import Any

from schemas.episode import Score
from schemas.verdict import JudgeVerdict, Outcome, TestVerdict

TESTS = "tests"
"""Name of the score that holds the tests of a sample: their number by outcome, and their output."""


def sample_scores(
    make_score: Any,
    scores: Sequence[Score],
    tests: Sequence[TestVerdict],
    ratings: Sequence[JudgeVerdict],
) -> Iterator[tuple[str, Any]]:
    """Yield the scores of a dialogue: the mean of each metric, then its tests and its ratings.

    A metric without a value yields nothing here. It is in the sample's metadata.
    """
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
    if tests:
        counts = {
            outcome.value: sum(test.outcome is outcome for test in tests) for outcome in Outcome
        }
        fields = {
            "turn",
            "instruction_id",
            "outcome",
            "reason",
            "detail",
            "duration_s",
            "n_cases",
            "n_passed",
        }
        output = "\n\n".join(
            f"turn {t.turn}, {t.instruction_id}: {t.outcome.value}\n{t.detail}".strip()
            for t in tests
        )
        rows = [test.model_dump(mode="json", include=fields) for test in tests]
        yield TESTS, make_score(value=counts, explanation=output, metadata={"tests": rows})
    for rubric in dict.fromkeys(rating.rubric for rating in ratings):
        rows = [rating for rating in ratings if rating.rubric == rubric]
        details = [
            row.model_dump(mode="json", exclude={"run_id", "benchmark", "model", "episode_id"})
            for row in rows
        ]
        in_turns = len({row.turn for row in rows}) > 1
        names = [f"turn {row.turn}: {row.dimension}" if in_turns else row.dimension for row in rows]
        values = {
            name: row.label if row.value is None else row.value
            for name, row in zip(names, rows, strict=True)
        }
        values = {name: value for name, value in values.items() if value is not None}
        if values:
            reasons = "\n\n".join(dict.fromkeys(row.raw for row in rows if row.raw))
            yield (
                f"judge {rubric}".strip(),
                make_score(value=values, explanation=reasons, metadata={"ratings": details}),
            )
