"""Dialogues with users of different levels (Talk2Code, Evaluation Metrics Design): the code, and the experience of the user.

All are pure functions of one dialogue. Their means over dialogues are the paper's figures.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tasks.metrics.registry import Metric, metric

LOWEST, HIGHEST = 1.0, 5.0


@metric("test_case_pass_rate", title="TP")
def pass_rate(n_passed: int, n_cases: int) -> float:
    """Share of the test cases that the delivered program passes.

    Args:
        n_passed: 0 to `n_cases`.
        n_cases: 1 and up.

    Returns:
        Ratio in [0, 1].

    Raises:
        ValueError: there is no case, or more passed than there are.

    Source: Talk2Code eq. 1, over one dialogue; the table's value is the mean over dialogues.
    """
    if not 0 <= n_passed <= n_cases or n_cases == 0:
        raise ValueError(
            f"{n_passed} of {n_cases} test cases passed: there must be a case, and no more passed than there are"
        )
    return n_passed / n_cases


@metric("success_rate", title="SR")
def success_rate(n_passed: int, n_cases: int) -> float:
    """Whether the delivered program passes all test cases.

    Args:
        n_passed: 0 to `n_cases`.
        n_cases: 1 and up.

    Returns:
        1.0 or 0.0.

    Raises:
        ValueError: as `pass_rate`.

    Source: Talk2Code eq. 2, the label s_i.
    """
    return float(pass_rate(n_passed, n_cases) == 1)


def _rating(name: str, title: str) -> Metric[[float], float]:
    @metric(name, title=title, judged=True, ends=(LOWEST, HIGHEST))
    def rating(value: float) -> float:
        """A judge's rating of one dimension of the dialogue, 1 (very poor) to 5 (excellent).

        Raises:
            ValueError: the rating lies outside of 1 to 5.

        Source: Talk2Code, Evaluation Metrics Design, subjective evaluation.
        """
        if not LOWEST <= value <= HIGHEST:
            raise ValueError(f"rating {value!r}: a dimension is rated from 1 to 5")
        return value

    return rating


RATINGS: Mapping[str, Metric[[float], float]] = MappingProxyType(
    {
        "QD": _rating("question_design", "QD"),
        "CL": _rating("cognitive_load", "CL"),
        "IF": _rating("interaction_fluency", "IF"),
        "UA": _rating("user_adaptability", "UA"),
        "CE": _rating("communication_efficiency", "CE"),
        "LS": _rating("learning_support", "LS"),
    }
)
"""Dimension of the rubric -> its metric. Of the cognitive load, too, 5 is best: a light one."""


@metric("interaction_experience", title="Avg", judged=True, ends=(LOWEST, HIGHEST))
def interaction_experience(ratings: Sequence[float]) -> float:
    """Mean of the six dimensions of one dialogue.

    Args:
        ratings: one of each dimension, each in [1, 5].

    Returns:
        Mean in [1, 5].

    Raises:
        ValueError: not six ratings.

    Source: Talk2Code Table 1, column Avg.
    """
    if len(ratings) != len(RATINGS):
        raise ValueError(f"{len(ratings)} ratings: the mean is of all six dimensions")
    return sum(ratings) / len(ratings)


@metric("delivery_rate", title="delivered")
def delivery_rate(delivered: bool) -> float:
    """Whether the model delivered a program within its replies.

    Returns:
        1.0 or 0.0.

    Source: Talk2Code, Settings: each model must complete the interaction within 10 turns.
    """
    return float(delivered)


@metric("user_leakage", title="user leaks", better=None)
def user_leakage(n_leaks: int, n_wordings: int) -> float:
    """Share of the simulated user's wordings that handed the program over, and so were never said.

    Args:
        n_leaks: 0 to `n_wordings`.
        n_wordings: replies that were asked for, repeated ones included; 1 and up.

    Returns:
        Ratio in [0, 1].

    Raises:
        ValueError: there is no wording, or more leaks than wordings.

    Source: ours. The paper's simulator knows the reference answer, and nothing is said of what it gives away.
    """
    if not 0 <= n_leaks <= n_wordings or n_wordings == 0:
        raise ValueError(
            f"{n_leaks} of {n_wordings} wordings leaked: there must be a wording, and no more leaks than there are"
        )
    return n_leaks / n_wordings


@metric("reference_disclosure", title="disclosed", better=None)
def reference_disclosure(share: float) -> float:
    """Share of the reference's body that the simulated user's messages hold at the end of the dialogue, all together.

    Args:
        share: of the body's tokens, with names made equal.

    Returns:
        Ratio in [0, 1].

    Raises:
        ValueError: no ratio.

    Source: ours. The paper's simulator knows the reference answer, and nothing is said of what it gives away.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"{share!r} of the reference is disclosed: a share lies between 0 and 1")
    return share


@metric("level_kept", title="level kept", better=None, judged=True)
def level_kept(judged: str, level: str) -> float:
    """Whether a judge who sees the simulated user's words alone takes them for words of the persona's level.

    Args:
        judged: the level that the judge named.
        level: the persona's.

    Returns:
        1.0 or 0.0.

    Source: ours. The paper assigns personas to its simulator and reports no check of them.
    """
    return float(judged == level)
