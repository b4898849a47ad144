"""Thoughts never reach an answer's text, in whichever form they come."""

from typing import Any

import pytest

from schemas.errors import UnknownName
from tasks.language.chat_model import Completion
from tasks.language.endpoints.answer_text import Thought, known_tags, without_reasoning
from tests.fixtures.model_server import Reply, model_server
from tests.tasks.language.requests import ask, complete

CHANNELS = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>ok<|return|>"


@pytest.mark.parametrize(
    ("content", "answer", "reasoning"),
    [
        ("<think>a\nb</think>\n\n    return 1", "    return 1", "a\nb"),
        ("\n<think></think>answer", "answer", ""),
        ("<think>a</think>\r\nx", "x", "a"),
        ("<think>a</think>x<think>b</think>y", "xy", "a\n\nb"),
        ("draft\n```python\nx\n```\n</think>\nanswer", "answer", "draft\n```python\nx\n```"),
        ("Sure!\n<think>a</think>\nb", "Sure!\n\nb", "a"),
        (
            "<think>```python\ndraft = 1\n```</think>\n```python\nx = 1\n```",
            "```python\nx = 1\n```",
            "```python\ndraft = 1\n```",
        ),
        (CHANNELS, "ok", "hm"),
        ("analysishmassistantfinalok", "ok", "hm"),
        ("", "", ""),
        ("a [1] < b <c>", "a [1] < b <c>", ""),
        ("```python\nx = '<think>'\n```", "```python\nx = '<think>'\n```", ""),
        ("Write `</think>` at the end", "Write `</think>` at the end", ""),
        ("```xml\n<think>\n</think>\n```", "```xml\n<think>\n</think>\n```", ""),
    ],
)
def test_thoughts_are_set_apart(content: str, answer: str, reasoning: str) -> None:
    assert without_reasoning(content) == Thought(answer, reasoning)


@pytest.mark.parametrize("name", sorted(known_tags()))
def test_each_pair_of_marks_is_known(name: str) -> None:
    begin, end = known_tags()[name]
    for choice in ("auto", name):
        assert without_reasoning(f"{begin}a{end}b", choice) == Thought("b", "a")
        assert without_reasoning(f"a{end}b", choice) == Thought("b", "a")
        assert without_reasoning(f"{begin}a", choice) == Thought("", "a", is_cut_off=True)
    assert without_reasoning(f"{begin}a{end}b", "none").answer == f"{begin}a{end}b"


def test_a_channel_without_a_final_one_is_cut_off() -> None:
    assert without_reasoning("<|channel|>analysis<|message|>hm") == Thought(
        "", "hm", is_cut_off=True
    )


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="mistral"):
        without_reasoning("<think>a</think>b", "thimk")


def answer_to(fields: dict[str, Any], finish_reason: str = "stop", **sampling: Any) -> Completion:
    details = {
        "completion_tokens": 9,
        "prompt_tokens": 3,
        "completion_tokens_details": {"reasoning_tokens": 7},
    }
    reply = Reply(
        content="",
        fields=tuple(fields.items()),
        finish_reason=finish_reason,
        body=(("usage", details),),
    )
    with model_server([reply]) as server:
        return complete(server, ask(**sampling))


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "x", "reasoning_content": "a"},
        {"content": "x", "reasoning": "a"},
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "a"}]},
                {"type": "text", "text": "x"},
            ]
        },
        {"content": [{"type": "thinking", "thinking": "a"}, {"type": "text", "text": "x"}]},
        {"content": [{"type": "reasoning", "text": "a"}, {"type": "text", "text": "x"}]},
        {"content": "<think>a</think>x"},
    ],
)
def test_thoughts_are_kept_beside_the_answer(fields: dict[str, Any]) -> None:
    answer = answer_to(fields)
    assert (answer.content, answer.reasoning, answer.reasoning_tokens, answer.output_tokens) == (
        "x",
        "a",
        7,
        9,
    )
    assert answer.finish_reason == "stop"


def test_kept_thoughts_stay_in_the_text() -> None:
    assert (
        answer_to({"content": "<think>a</think>x"}, omit_reasoning=False).content
        == "<think>a</think>x"
    )


@pytest.mark.parametrize(
    ("fields", "finish_reason", "expected"),
    [
        ({"content": None, "reasoning_content": "a"}, "stop", "stop"),
        ({"content": None, "reasoning_content": "a"}, "length", "cut_off"),
        ({"content": "<think>a"}, "length", "cut_off"),
        ({"content": "<think>a"}, "stop", "cut_off"),
        ({"content": ""}, "stop", "stop"),
    ],
)
def test_an_answer_of_thoughts_alone_is_empty_and_not_asked_again(
    fields: dict[str, Any], finish_reason: str, expected: str
) -> None:
    answer = answer_to(fields, finish_reason)
    assert (answer.content, answer.finish_reason, answer.n_calls) == ("", expected, 1)
