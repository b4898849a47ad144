"""Prompt files: header off, placeholders filled strictly, values taken as they are."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigError
from tasks.language.prompt import fill, placeholders, prompt_text


def test_the_header_is_left_out_and_a_later_comment_stays(tmp_path: Path) -> None:
    path = tmp_path / "p.md"
    path.write_text(
        "<!-- Paper, section 3.2 -->\n<!-- ours -->\n\nJudge {answer}.\n<!-- part of the "
        "prompt -->\n"
    )
    assert prompt_text(path) == "Judge {answer}.\n<!-- part of the prompt -->"


@pytest.mark.parametrize("content", [b"", b"<!-- only a header -->\n", b"\xff"])
def test_a_prompt_without_text_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p.md"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"p\.md"):
        prompt_text(path)


@given(st.text(), st.text())
def test_values_are_put_in_as_they_are(first: str, second: str) -> None:
    assert fill("<{a}|{b}|{a}>", a=first, b=second) == f"<{first}|{second}|{first}>"


def test_only_names_in_braces_are_placeholders() -> None:
    text = 'Answer {"score": 1} or {} or {Name} for {answer}'
    assert placeholders(text) == ("answer",)
    assert (
        fill(text, answer="{answer} {score}")
        == 'Answer {"score": 1} or {} or {Name} for {answer} {score}'
    )


def test_missing_and_unused_names_are_errors() -> None:
    with pytest.raises(ConfigError, match="no value for question"):
        fill("{question} {answer}", answer="a")
    with pytest.raises(ConfigError, match="no placeholder for extra"):
        fill("{answer}", answer="a", extra="b")
