"""Comparison of an answer with a reference: words, equality, numbers, ratings (UniDial-EvalKit)."""

import re
from collections import Counter
from collections.abc import Sequence

from tasks.metrics.registry import metric

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")
_TOLERANCE = 1e-6


def _words(text: str) -> list[str]:
    return _WORD.findall(text.strip().lower())


def _n_shared(first: Sequence[str], second: Sequence[str]) -> int:
    return (Counter(first) & Counter(second)).total()


@metric("precision", title="precision")
def precision(answer: str, reference: str) -> float:
    """Return the share of the answer's words that the reference contains.

    A repeated word counts as often as the reference contains it.

    Returns:
        In [0, 1]; 0 for an answer without words.

    Source: UniDial-EvalKit, `precision`.
    """
    words = _words(answer)
    return _n_shared(words, _words(reference)) / len(words) if words else 0.0


@metric("word_recall", title="recall")
def word_recall(answer: str, references: Sequence[str], binary: bool = False) -> float:
    """Return the share of a reference's words that the answer contains, the best of all references.

    Args:
        answer: the model's answer.
        references: acceptable answers.
        binary: return 1 if the answer contains all words of some reference, else 0.

    Source: UniDial-EvalKit, `recall`; LoCoMo's adversarial questions are binary.
    """
    words = _words(answer)
    shares = [
        _n_shared(words, wanted) / len(wanted) if (wanted := _words(reference)) else 0.0
        for reference in references
    ]
    best = max(shares, default=0.0)
    return float(best >= 1.0) if binary else best


@metric("f1_score", title="F1")
def f1_score(answer: str, reference: str, multi_answer: bool = False) -> float:
    """Return the harmonic mean of precision and recall over words.

    Args:
        answer: the model's answer.
        reference: the correct answer.
        multi_answer: treat both texts as comma-separated lists, and return the mean over the
            reference's items of the best F1 with an item of the answer.

    Source: UniDial-EvalKit, `f1_score`; LoCoMo section 4.1 (multi-hop questions).
    """
    if not multi_answer:
        return _f1(answer, reference)
    wanted = [wanted_item for item in reference.split(",") if (wanted_item := item.strip())]
    items = [item.strip() for item in answer.split(",")]
    return (
        sum(max(_f1(item, wanted_item) for item in items) for wanted_item in wanted) / len(wanted)
        if wanted
        else 0.0
    )


def _f1(answer: str, reference: str) -> float:
    answer_words, reference_words = _words(answer), _words(reference)
    shared = _n_shared(answer_words, reference_words)
    return 2 * shared / (len(answer_words) + len(reference_words)) if shared else 0.0


@metric("exact_match", title="exact match")
def exact_match(answer: str, reference: str, start: str = "", end: str = "") -> float:
    """Return 1 if answer and reference are equal except for case, else 0.

    Args:
        answer: the model's answer.
        reference: the correct answer.
        start: compare only the text after the last occurrence of this mark; empty for all of it.
        end: optional closing mark to remove from that text.

    Source: UniDial-EvalKit, `exact_match`; PersonaMem's `<final_answer>`.
    """
    if start:
        answer = answer.split(start)[-1].strip()
        answer = answer.removesuffix(end).strip() if end else answer
    return float(answer.lower() == reference.lower())


@metric("numeric_match", title="numeric match")
def numeric_match(answer: str, reference: str) -> float:
    """Return 1 if the last numbers of answer and reference are equal, else 0.

    If one of the texts has no number, the texts are compared.

    Source: UniDial-EvalKit, `numeric_match` (MathChat).
    """
    answer_number, reference_number = _last_number(answer), _last_number(reference)
    if answer_number is None or reference_number is None:
        return float(answer.strip() == reference.strip())
    return float(abs(answer_number - reference_number) < _TOLERANCE)


def _last_number(text: str) -> float | None:
    numbers = _NUMBER.findall(text)
    return float(numbers[-1].replace(",", "")) if numbers else None


@metric("llm_judge", title="judge", judged=True)
def llm_judge(rating: float, lowest: float, highest: float) -> float:
    """Return a judge's rating as a share of its scale: (rating - lowest) / (highest - lowest).

    Raises:
        ValueError: `highest` is not above `lowest`.

    Source: UniDial-EvalKit, `llm_judge`.
    """
    if highest <= lowest:
        raise ValueError(f"scale from {lowest} to {highest}: the highest value must be larger")
    return (rating - lowest) / (highest - lowest)
