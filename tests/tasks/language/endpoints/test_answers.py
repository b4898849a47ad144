"""Bodies of a 200 that are no answer, or hardly one."""

import json
from typing import Any

import pytest

from schemas.errors import ModelUnavailable
from tasks.language.endpoints.answers import read_answer
from tests.fixtures.model_server import Reply, model_server
from tests.tasks.language.requests import complete, refused


def body(**changed: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(changed.items())


ERROR = {"error": {"message": "upstream failed", "code": 502}}
HICCUPS = {
    "empty text at zero tokens": Reply(
        content="", body=body(usage={"prompt_tokens": 3, "completion_tokens": 0})
    ),
    "an error beside half a text": Reply(content="def f(", finish_reason="error"),
    "an error in the choice": Reply(
        body=body(
            choices=[
                {
                    "index": 0,
                    "error": {"code": 502, "message": "x"},
                    "message": {"content": "def f("},
                }
            ]
        )
    ),
    "an error object": Reply(body=body(choices=None, **ERROR)),
    "an error object beside a text": Reply(content="def f(", body=body(**ERROR)),
    "a rate limit in words": Reply(
        body=body(choices=None, error={"code": "rate_limit_exceeded", "message": "slow down"})
    ),
    "a rate limit as text": Reply(
        body=body(choices=None, error={"code": "429", "message": "slow down"})
    ),
}


@pytest.mark.parametrize("name", HICCUPS)
def test_a_hiccup_is_asked_again(name: str) -> None:
    with model_server([HICCUPS[name]]) as server:
        answer = complete(server)
    assert answer.n_calls == 2
    assert answer.content.startswith("```python")


@pytest.mark.parametrize(
    ("code", "said"),
    [(401, "key"), (402, "credit"), ("insufficient_quota", "credit"), (403, "key")],
)
def test_a_key_or_an_account_refused_within_a_200_is_asked_once(code: object, said: str) -> None:
    error, n_requests = refused(
        [Reply(body=body(choices=None, error={"code": code, "message": "no"}))] * 3
    )
    assert (n_requests, error.permanent) == (1, True)
    assert said in str(error)


def test_a_context_length_within_a_200_is_the_model_s() -> None:
    error = {"code": 400, "message": "prompt is too long: 9 tokens > 4 maximum"}
    with model_server([Reply(body=body(choices=None, error=error))]) as server:
        assert complete(server).finish_reason == "context_length"


@pytest.mark.parametrize(
    "reply",
    [
        Reply(content="", finish_reason="content_filter"),
        Reply(content="", finish_reason="SAFETY"),
        Reply(content="", finish_reason="refusal"),
        Reply(fields=(("content", None), ("refusal", "I cannot help with that."))),
        Reply(
            body=body(
                choices=[],
                prompt_filter_results=[{"content_filter_results": {"hate": {"filtered": True}}}],
            )
        ),
        Reply(body=body(choices=[], promptFeedback={"blockReason": "SAFETY"})),
        Reply(400, code="invalid_prompt", message="Invalid prompt: your prompt was flagged"),
        Reply(403, message="m requires moderation. Your input was flagged"),
    ],
)
def test_a_refusal_to_one_prompt_is_asked_once_and_has_one_name(reply: Reply) -> None:
    with model_server([reply]) as server:
        answer = complete(server)
    assert (answer.content, answer.finish_reason, answer.n_calls) == ("", "content_filter", 1)


def test_the_choice_with_index_0_is_taken() -> None:
    choices = [
        {"index": n, "finish_reason": "stop", "message": {"content": str(n)}} for n in (1, 0)
    ]
    assert read_answer(json.dumps({"choices": choices}).encode()).content == "0"


@pytest.mark.parametrize("count", [2**63, 10**12, -1, 1.5, True, "9", None])
def test_an_implausible_count_is_unknown(count: object) -> None:
    usage = {
        "prompt_tokens": count,
        "completion_tokens": 1,
        "completion_tokens_details": {"reasoning_tokens": count},
    }
    whole = {"choices": [{"message": {"content": "x"}}], "usage": usage}
    answer = read_answer(json.dumps(whole).encode())
    assert (answer.input_tokens, answer.reasoning_tokens, answer.output_tokens) == (None, None, 1)


def test_a_hiccup_that_stays_is_infra_with_its_own_reason() -> None:
    with (
        pytest.raises(ModelUnavailable, match="empty and has no tokens"),
        model_server([HICCUPS["empty text at zero tokens"]] * 9) as server,
    ):
        complete(server)
