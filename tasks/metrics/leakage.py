"""Leakage: does feedback give the solution away (ConvCodeWorld, Appendix A.3, Table 8)?

Asked of each feedback by a speaker who saw the reference code. The shares are means over such feedbacks.
"""

import re

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
    r"(?!\s+(?:you|that\s+you|of\s+yours|is\s+close|to|should|must|would|needs?|has\s+to|can|could|may|might|fails|below|above))"
    r")\b",
    re.IGNORECASE,
)
"""Names that the expert's prompt has for the reference code, and those that models use of their own accord.

The prompt calls the assistant's code *the program* and the reference *the solution*, so that *the solution* is the reference,
but where the sentence says what the assistant's solution should do.
"""
_MARKUP = re.compile(r"[*`\"'“”‘’]")


@metric("mentions_reference", version=2, title="mentions reference", better=None)
def mentions_reference(feedback: str) -> float:
    """Whether the feedback speaks of the reference code that its reader does not have.

    Args:
        feedback: the verbal feedback as the model was given it.

    Returns:
        1.0 where it names ground truth, a reference, canonical, golden or correct code (solution, ...), a model solution, or *the
        solution* as our expert's prompt calls it; else 0.0.

    Source: ConvCodeWorld appendix A.3, Table 8 (mentioning ground truth code). The paper does not list its words; these are ours.
    """
    return float(_REFERENCE.search(_MARKUP.sub("", feedback)) is not None)


@metric("contains_refined_code", version=1, title="contains code", better=None)
def contains_refined_code(feedback: str, previous: str, refined: str) -> float:
    """Whether the feedback holds the whole code that the model then answered with: it was told the code, not what to change.

    Spaces and line breaks do not count. An answer without code is in no feedback, and code that was not changed was refined by
    nobody: feedback that quotes it gives nothing away.

    Args:
        feedback: the verbal feedback as the model was given it.
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
