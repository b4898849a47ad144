"""Leakage of the solution through feedback (ConvCodeWorld, Appendix A.3, Table 8).

The metrics apply to each feedback whose author saw the reference code. The paper's shares are means
over such feedbacks.
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
