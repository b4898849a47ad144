"""Answers compared with a reference: word overlap, equality, numbers; a judge's rating as a share (UniDial-EvalKit)."""

import re
from collections import Counter
from collections.abc import Sequence

from tasks.metrics.registry import metric

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")
_TOLERANCE = 1e-6


def _words(text: str) -> list[str]:
    return _WORD.findall(text.strip().lower())


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    return (Counter(first) & Counter(second)).total()


@metric("precision", title="precision")
def precision(answer: str, reference: str) -> float:
    """Share of the answer's words that the reference has, each as often as there.

    Returns:
        In [0, 1]; 0 for an answer without words.

    Source: UniDial-EvalKit, `precision`.
    """
    words = _words(answer)
    return _shared(words, _words(reference)) / len(words) if words else 0.0


@metric("word_recall", title="recall")
def word_recall(answer: str, references: Sequence[str], binary: bool = False) -> float:
    """Share of a reference's words that the answer has: the best over all references.

    Args:
        binary: 1 where some reference stands there with all its words, else 0.

    Source: UniDial-EvalKit, `recall`; LoCoMo's adversarial questions are binary.
    """
    words = _words(answer)
    shares = [
        _shared(words, wanted) / len(wanted) if (wanted := _words(one)) else 0.0
        for one in references
    ]
    best = max(shares, default=0.0)
    return float(best >= 1.0) if binary else best


@metric("f1_score", title="F1")
def f1_score(answer: str, reference: str, multi_answer: bool = False) -> float:
    """Harmonic mean of precision and recall over words.

    Args:
        multi_answer: both texts are lists with commas; each item of the reference counts with the best item of the answer.

    Source: UniDial-EvalKit, `f1_score`; LoCoMo section 4.1 (multi-hop questions).
    """
    if not multi_answer:
        return _f1(answer, reference)
    wanted = [item for one in reference.split(",") if (item := one.strip())]
    given = [one.strip() for one in answer.split(",")]
    return (
        sum(max(_f1(one, item) for one in given) for item in wanted) / len(wanted)
        if wanted
        else 0.0
    )


def _f1(answer: str, reference: str) -> float:
    given, wanted = _words(answer), _words(reference)
    shared = _shared(given, wanted)
    return 2 * shared / (len(given) + len(wanted)) if shared else 0.0


@metric("exact_match", title="exact match")
def exact_match(answer: str, reference: str, start: str = "", end: str = "") -> float:
    """1 where answer and reference are the same text but for capitals, else 0.

    Args:
        start: only what stands after the last of these marks counts; empty for the whole answer.
        end: a mark that may close it.

    Source: UniDial-EvalKit, `exact_match`; PersonaMem's `<final_answer>`.
    """
    if start:
        answer = answer.split(start)[-1].strip()
        answer = answer.removesuffix(end).strip() if end else answer
    return float(answer.lower() == reference.lower())


@metric("numeric_match", title="numeric match")
def numeric_match(answer: str, reference: str) -> float:
    """1 where the last numbers of answer and reference are the same; without a number in one of them, where the texts are.

    Source: UniDial-EvalKit, `numeric_match` (MathChat).
    """
    given, wanted = _last_number(answer), _last_number(reference)
    if given is None or wanted is None:
        return float(answer.strip() == reference.strip())
    return float(abs(given - wanted) < _TOLERANCE)


def _last_number(text: str) -> float | None:
    numbers = _NUMBER.findall(text)
    return float(numbers[-1].replace(",", "")) if numbers else None


@metric("llm_judge", title="judge", judged=True)
def llm_judge(rating: float, lowest: float, highest: float) -> float:
    """A judge's rating as a share of its scale: (rating - lowest) / (highest - lowest).

    Raises:
        ValueError: the scale has no length.

    Source: UniDial-EvalKit, `llm_judge`.
    """
    if highest <= lowest:
        raise ValueError(f"a scale from {lowest} to {highest} has no length")
    return (rating - lowest) / (highest - lowest)
