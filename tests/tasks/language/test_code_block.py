"""Code out of a completion, by CodeIF-Bench's rules."""

import pytest

from tasks.language.markdown_code import first_python_block, upstream_v0_cleanup


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("Here:\n```python\nx = 1\n```\nand\n```python\ny = 2\n```", "x = 1\n"),
        ("```python\r\nx = 1\r\n```", "x = 1\r\n"),
        ("```\nx = 1\n```\n```python\ny = 2\n```", "y = 2\n"),
        ("```python\nx = 1", "```python\nx = 1"),
        ("x = 1", "x = 1"),
        ("", ""),
    ],
)
def test_the_first_block_tagged_python_else_everything(answer: str, code: str) -> None:
    assert first_python_block(answer) == code


def test_cleanup_deletes_docstrings_opened_after_four_spaces_and_blank_lines() -> None:
    code = (
        'def f():\n    """\n    Says so.\n    """\n\n    return 1\n\n\ndef g():\n    """One '
        'line."""\n    return 2\n'
    )
    assert (
        upstream_v0_cleanup(code)
        == 'def f():\n    return 1\ndef g():\n    """One line."""\n    return 2'
    )
