"""Which feedback gives the solution away."""

import pytest

from tasks.metrics.iterative_generation import contains_refined_code, mentions_reference

PREVIOUS = "def area(r):\n    return r * r\n"
REFINED = "import math\n\n\ndef area(r):\n    return math.pi * r ** 2\n"


@pytest.mark.parametrize(
    "feedback",
    [
        "Unlike the ground truth code, yours does not catch a division by zero.",
        "Compare with the Ground-Truth: it sorts first.",
        "The **reference** `solution` uses a set.",
        "In the canonical_solution the file is closed.",
        "The golden implementation returns a tuple.",
        "A model answer would check the type first.",
        "Unlike the solution known to be right, your program starts from 1.",
        "The solution that is known to be correct returns early.",
        "There is a known-right program that does it in one pass.",
        "Compare it with the correct implementation.",
        "The solution counts letters, and your program counts pairs.",
        "In the solution, an empty text gives 0.",
        "You also have a solution: use it.",
        "The intended solution groups equal letters.",
    ],
)
def test_words_that_only_one_who_saw_the_solution_would_say(feedback: str) -> None:
    assert mentions_reference(feedback) == 1


@pytest.mark.parametrize(
    "feedback",
    [
        "",
        "You keep a reference to the list; copy it.",
        "Fit the model, then the code should return its score.",
        "The code solution is close; the truth value of an empty array is ambiguous.",
        "Ground the outline of the polygon. Truth be told, it works.",
        "The preference code is wrong.",
        "The solution you wrote fails on an empty list.",
        "The solution should start from 0.",
        "Your solution counts pairs instead of letters.",
        "The solution to this problem needs a loop.",
        "To get the right answer for an empty list, return early.",
        "The given code does not compile.",
        "The result is not correct: answer with a list.",
    ],
)
def test_words_of_the_task_itself_give_nothing_away(feedback: str) -> None:
    assert mentions_reference(feedback) == 0


def test_feedback_that_holds_the_next_code_is_found_however_it_is_indented() -> None:
    indented = "\n".join(f"    {line}" for line in REFINED.splitlines())
    assert (
        contains_refined_code(f"Write this:\n\n{indented}\n\nThat is all.", PREVIOUS, REFINED) == 1
    )


def test_a_part_of_the_next_code_is_not_the_next_code() -> None:
    assert contains_refined_code("The result must be `math.pi * r ** 2`.", PREVIOUS, REFINED) == 0


def test_code_that_was_not_changed_was_given_away_by_nobody() -> None:
    assert contains_refined_code(f"Your code was {PREVIOUS}", PREVIOUS, PREVIOUS + "\n") == 0


@pytest.mark.parametrize("nothing", ["", "  \n"])
def test_an_answer_without_code_is_in_no_feedback(nothing: str) -> None:
    assert contains_refined_code("Anything.", PREVIOUS, nothing) == 0
