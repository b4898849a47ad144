"""Hand-worked values of the word and number metrics, and of a judge's rating as a share."""

import pytest

from tasks.metrics.text_match import (
    exact_match,
    f1_score,
    llm_judge,
    numeric_match,
    precision,
    word_recall,
)


def test_precision_counts_each_word_as_often_as_the_reference_has_it() -> None:
    """`the cat the hat`: of four words the reference has `the` once and `hat`: 2 / 4."""
    assert precision("The cat, the hat", "the hat fits") == 0.5
    assert precision("medicine", "Medicine!") == 1.0
    assert precision("?!", "medicine") == 0.0


def test_recall_is_of_the_best_reference() -> None:
    """`not mentioned`: one of two words; `no information available`: none of three."""
    assert word_recall("It was not said", ("no information available", "not mentioned")) == 0.5
    assert word_recall("It was not said", ("not mentioned",), binary=True) == 0.0
    assert (
        word_recall("(b) Not mentioned in the conversation", ("not mentioned",), binary=True) == 1.0
    )


def test_f1_is_the_harmonic_mean() -> None:
    """Answer of 4 words, reference of 2, shared 2: P = 1/2, R = 1, F1 = 2/3."""
    assert f1_score("in May of 2023", "May 2023") == pytest.approx(2 / 3)
    assert f1_score("never", "May 2023") == 0.0


def test_f1_of_a_list_takes_the_best_item_for_each_wanted_one() -> None:
    """`stairs` is there (1), `trams` has `old trams` (P = 1/2, R = 1: 2/3): mean 5/6.

    As one text: 2 * 2 / (3 + 2) = 4/5.
    """
    assert f1_score("old trams, stairs", "stairs, trams", multi_answer=True) == pytest.approx(5 / 6)
    assert f1_score("old trams, stairs", "stairs, trams") == pytest.approx(4 / 5)


@pytest.mark.parametrize(
    ("answer", "matches"),
    [
        ("I think <final_answer> (B)", True),
        ("<final_answer>(a)</final_answer> no, <final_answer>(b)</final_answer>", True),
        ("(b)", True),
        ("It is (b)", False),
        ("<final_answer>(c)", False),
    ],
)
def test_the_letter_after_the_last_mark_is_compared(answer: str, matches: bool) -> None:
    assert exact_match(answer, "(b)", "<final_answer>", "</final_answer>") == float(matches)


def test_without_marks_the_whole_answer_is_compared_but_for_capitals() -> None:
    assert exact_match("Paris", "paris") == 1.0
    assert exact_match("Paris ", "paris") == 0.0


@pytest.mark.parametrize(
    ("answer", "reference", "matches"),
    [
        ("5 + 13 = 18 dollars", "9 * 2 = <<9*2=18>>18.\n#### 18", True),
        ("It costs 1,200.50", "1200.5", True),
        ("-3", "3", False),
        ("18, as I said in step 2", "18", False),
        ("none", " none ", True),
        ("eighteen", "18", False),
    ],
)
def test_the_last_numbers_are_compared(answer: str, reference: str, matches: bool) -> None:
    assert numeric_match(answer, reference) == float(matches)


def test_a_rating_is_a_share_of_its_scale() -> None:
    """MT-Eval: 7 of 0..10. MathChat's sum of 12 on 1..15: 11 / 14."""
    assert llm_judge(7, 0, 10) == 0.7
    assert llm_judge(12, 1, 15) == pytest.approx(11 / 14)
    with pytest.raises(ValueError, match="must be larger"):
        llm_judge(1, 1, 1)
