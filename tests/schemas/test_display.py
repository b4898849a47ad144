"""Text of unknown origin cannot act on terminal, table or page."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from schemas.outside.display import markdown_cell, plain_difference, plain_line, plain_text


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    assert all(c.isprintable() for c in plain_line(text))
    assert all(unicodedata.category(c)[0] != "C" or c in "\n\t" for c in plain_text(text))
    assert len(plain_line(text, 40)) <= 40


def test_two_texts_are_cut_around_their_first_difference() -> None:
    before = (
        "zygote in bubblewrap 0.8.0, unittest.mock (no version), numpy 1.26.4, pandas 2.1.0, and "
        "what is the same in both"
    )
    after = before.replace("1.26.4", "2.0.1")
    shown = plain_difference(before, after, 40)
    assert shown == (
        "…sion), numpy 1.26.4, pandas 2.1.0, and…",
        "…sion), numpy 2.0.1, pandas 2.1.0, and …",
    )


def test_texts_that_fit_and_differences_at_an_end_are_cut_no_more_than_they_must_be() -> None:
    assert plain_difference("a", "b" * 60) == ("a", "b" * 60)
    assert plain_difference("x" + "a" * 20, "y" + "a" * 20, 10) == (
        "x" + "a" * 8 + "…",
        "y" + "a" * 8 + "…",
    )
    assert plain_difference("a" * 20 + "x", "a" * 20 + "y", 10) == (
        "…" + "a" * 8 + "x",
        "…" + "a" * 8 + "y",
    )
    assert plain_difference("a" * 20, "a" * 21, 10) == ("…" + "a" * 8, "…" + "a" * 9)


@given(st.text(), st.text(), st.text(), st.integers(min_value=6, max_value=30))
def test_what_differs_is_shown(same: str, one: str, other: str, width: int) -> None:
    shown = plain_difference(same + one, same + other, width)
    assert all(text.isprintable() and len(text) <= width for text in shown)
    assert (shown[0] == shown[1]) == (
        plain_line(same + one, 10**6) == plain_line(same + other, 10**6)
    )


def test_terminal_commands_and_hidden_directions_are_taken_out() -> None:
    assert plain_line("a\x1b]0;EVIL\x07b\u202ec\r\nd") == "a]0;EVILbc  d"


def test_a_cell_stays_one_cell_without_markup() -> None:
    assert markdown_cell("x | y\n# z") == r"x \| y # z"
    assert markdown_cell("<script>*b*</script>") == r"\<script\>\*b\*\</script\>"
    assert markdown_cell("instruction_accuracy") == "instruction_accuracy"
