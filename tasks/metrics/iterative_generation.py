"""Code that is refined turn by turn until it passes, and leakage of the solution (ConvCodeWorld).

Each metric of section 4.1 is a pure function of one task's verdicts: `passed[t]` is True if the
current code after turn `t` passes the full test suite. Turns are counted as in the paper: turn 0 is
the first answer, before any feedback. A solved task is carried forward: its code stays the same in
later turns. Values are in [0, 1]; their means over tasks are the paper's figures.

The metrics of leakage through feedback (Appendix A.3, Table 8) apply to each feedback whose author
saw the reference code. The paper's shares are means over such feedbacks.
"""

import re
from collections.abc import Sequence

from tasks.metrics.registry import metric

_THING = r"(?:code|solution|implementation|program|answer|version)"
_CODE = r"(?:code|solution|implementation|program)"
_REFERENCE = re.compile(
    r"\b(?:"
    r"ground[\s_.-]*truth"
    rf"|(?:reference|canonical|gold(?:en)?|official)[\s_.-]+{_THING}"
    rf"|(?:the|a)\s+(?:correct|right|intended|expected)\s+{_CODE}"
    r"|(?:the|a)\s+(?:known|given|provided)\s+solution"
    r"|model[\s_.-]+(?:solution|answer)"
    r"|known[\s-]+to[\s-]+be[\s-]+(?:right|correct)"
    r"|known[\s-]+(?:right|correct|good)"
    r"|(?:the|a|that|this)\s+solution"
    r"(?!\s+(?:you|that\s+you|of\s+yours|is\s+close|to|should|must|would|needs?|has\s+to|can|could"
    r"|may|might|fails|below|above))"
    r")\b",
    re.IGNORECASE,
)
"""Names for the reference code: those in the expert's prompt, and others that models use.

The prompt calls the assistant's code *the program* and the reference *the solution*. So *the
solution* means the reference, unless the sentence says what the assistant's solution should do.
"""
_MARKUP = re.compile(r"['’]s\b|[*`\"'“”‘’]")
"""Possessive endings, emphasis and quotes, which are deleted: *the solution's loop* is a name."""


def _check_turn(passed: Sequence[bool], turn: int) -> int:
    if not 0 <= turn < len(passed):
        raise ValueError(
            f"turn {turn} is outside 0..{len(passed) - 1}: turns are counted from 0, the answer"
            " before any feedback"
        )
    return turn


@metric("pass_at_1", version=1, title="pass@1")
def pass_at_1(passed: Sequence[bool], turn: int) -> float:
    """Return 1 if the current code after turn `turn` passes the full test suite, else 0.

    Args:
        passed: one per turn from 0, in order.
        turn: 0-based turn.

    Returns:
        1.0 or 0.0.

    Raises:
        ValueError: `turn` is outside 0..len(passed) - 1.

    Source: ConvCodeWorld section 4.1 (Pass@1 at each turn).
    """
    return float(passed[_check_turn(passed, turn)])


@metric("pass_at_1_upstream", version=2, title="pass@1 upstream")
def pass_at_1_upstream(passed: Sequence[bool], turn: int) -> float:
    """Return 1 if the code of turn `turn` or of turn 0 passes the full test suite, else 0.

    The published scripts count in this way. Their turn 0 of a static replay is the reference
    model's first answer, not that of the model under test. A solved task is carried forward or
    credited, so the value equals `pass_at_1` wherever both are known.

    Args:
        passed: one per turn from 0, in order. In a static replay, the first is the reference
            model's.
        turn: 0-based turn.

    Returns:
        1.0 or 0.0; the value can fall from one turn to the next.

    Raises:
        ValueError: `turn` is outside 0..len(passed) - 1.

    Source: ConvCodeWorld's published evaluation scripts; the paper's definition of Pass@1 has no
    credit for turn 0.
    """
    return float(passed[_check_turn(passed, turn)] or passed[0])


@metric("mrr", version=1, title="MRR")
def mrr(passed: Sequence[bool]) -> float:
    """Return the reciprocal rank of the first passing turn: 1 / (i + 1) for turn i, else 0.

    Args:
        passed: one per turn from 0 to the last, in order.

    Returns:
        Ratio in [0, 1]; the mean over tasks is the paper's MRR.

    Raises:
        ValueError: `passed` is empty.

    Source: ConvCodeWorld section 4.1 (Mean Reciprocal Rank).
    """
    _check_turn(passed, 0)
    return next((1 / rank for rank, solved in enumerate(passed, 1) if solved), 0.0)


@metric("mrr_upstream", version=1, title="MRR upstream")
def mrr_upstream(passed: Sequence[bool], credited_from: int | None) -> float:
    """Return the reciprocal rank by the rule of the published scripts.

    In a static replay, once the reference model's code of a turn has passed, the following turns
    are credited as passed without a request to the model. For such a credit the published scripts
    use the rank of the turn in which the reference passed, and `mrr` uses the rank of the first
    credited turn. Without credited turns both values are equal.

    Args:
        passed: one per turn from 0 to the last, in order; credited turns pass.
        credited_from: first credited turn, 1 and up; None if there is none.

    Returns:
        Ratio in [0, 1]; the mean over tasks is the value in the paper's tables 5, 11 and 12.

    Raises:
        ValueError: `passed` is empty, or a credited turn does not pass.

    Source: ConvCodeWorld's published evaluation scripts.
    """
    if credited_from is not None and (credited_from < 1 or not all(passed[credited_from:])):
        raise ValueError(
            f"credited_from is {credited_from}: credit begins at turn 1 or later, and all credited"
            " turns must pass"
        )
    reciprocal = mrr(passed)
    return (
        1 / credited_from
        if credited_from is not None and reciprocal == 1 / (credited_from + 1)
        else reciprocal
    )


@metric("recall", version=1, title="Recall")
def recall(passed: Sequence[bool]) -> float:
    """Return 1 if the code of any turn passes, else 0.

    Args:
        passed: one per turn from 0 to the last, in order.

    Returns:
        1.0 or 0.0.

    Raises:
        ValueError: `passed` is empty.

    Source: ConvCodeWorld section 4.1 (Recall).
    """
    _check_turn(passed, 0)
    return float(any(passed))


@metric("mentions_reference", version=3, title="mentions reference", better=None)
def mentions_reference(feedback: str) -> float:
    """Return 1 if the feedback mentions the reference code, which its reader does not have, else 0.

    Args:
        feedback: the verbal feedback that the model receives.

    Returns:
        1.0 if the feedback names ground truth, a reference, canonical, golden or correct code
        (solution, implementation and similar words), a model solution, or *the solution*, as our
        expert's prompt calls it; else 0.0.

    Source: ConvCodeWorld appendix A.3, Table 8 (mentioning ground truth code). The paper does not
    list its words; the words here are ours.
    """
    return float(_REFERENCE.search(_MARKUP.sub("", feedback)) is not None)


@metric("contains_refined_code", version=1, title="contains code", better=None)
def contains_refined_code(feedback: str, previous: str, refined: str) -> float:
    """Return 1 if the feedback contains the complete code of the model's next answer, else 0.

    Such feedback dictates the code instead of describing a change. Spaces and line breaks are
    ignored. The value is 0 for an answer without code, and for an answer that leaves the code
    unchanged: feedback that quotes the current code reveals nothing.

    Args:
        feedback: the verbal feedback that the model receives.
        previous: the code that the feedback is about.
        refined: the code of the next answer.

    Returns:
        1.0 or 0.0.

    Source: ConvCodeWorld appendix A.3, Table 8 (including refined code).
    """
    sought = _without_space(refined)
    return float(
        bool(sought) and sought != _without_space(previous) and sought in _without_space(feedback)
    )


def _without_space(text: str) -> str:
    return re.sub(r"\s+", "", text)
