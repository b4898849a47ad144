"""Text of unknown origin cannot act on terminal, table or page."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from schemas.display import markdown_cell, plain_line, plain_text


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    assert all(c.isprintable() for c in plain_line(text))
    assert all(unicodedata.category(c)[0] != "C" or c in "\n\t" for c in plain_text(text))
    assert len(plain_line(text, 40)) <= 40


def test_terminal_commands_and_hidden_directions_are_taken_out() -> None:
    assert plain_line("a\x1b]0;EVIL\x07b\u202ec\r\nd") == "a]0;EVILbc  d"


def test_a_cell_stays_one_cell_without_markup() -> None:
    assert markdown_cell("x | y\n# z") == r"x \| y # z"
    assert markdown_cell("<script>*b*</script>") == r"\<script\>\*b\*\</script\>"
    assert markdown_cell("instruction_accuracy") == "instruction_accuracy"
