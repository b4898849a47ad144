"""What endpoints send, read: answers, faults, waits, names."""

import contextlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.run import EndpointProfile
from tasks.language.endpoints.answers import MalformedAnswer, read_answer
from tasks.language.endpoints.faults import read_fault, retry_after_s, shortened
from tasks.language.endpoints.wire import (
    is_plausible_name,
    json_bytes,
    request_body,
    valid_unicode,
)
from tests.tasks.language.requests import ask


def body(**changed: object) -> bytes:
    whole = {
        "model": "mock",
        "choices": [{"finish_reason": "stop", "message": {"content": "hello"}}],
    }
    return json.dumps(
        whole | {"usage": {"prompt_tokens": 3, "completion_tokens": 2}} | changed
    ).encode()


def test_an_answer_is_read() -> None:
    answer = read_answer(body())
    assert (answer.content, answer.finish_reason, answer.input_tokens, answer.output_tokens) == (
        "hello",
        "stop",
        3,
        2,
    )


@pytest.mark.parametrize(
    "usage",
    [None, {}, {"prompt_tokens": None}, {"prompt_tokens": -1}, {"prompt_tokens": True}, "many"],
)
def test_missing_usage_is_none_not_zero(usage: object) -> None:
    answer = read_answer(body(usage=usage))
    assert (answer.input_tokens, answer.output_tokens) == (None, None)


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"content": None, "reasoning_content": "thinking"}, ""),
        ({}, ""),
        (
            {
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image"},
                    {"type": "text", "text": "b"},
                ]
            },
            "ab",
        ),
        ({"content": "half \ud83d"}, "half \ufffd"),
    ],
)
def test_contents_of_every_shape(message: dict[str, object], content: str) -> None:
    assert read_answer(body(choices=[{"message": message}])).content == content


@pytest.mark.parametrize(
    "data",
    [
        b"",
        body()[:40],
        b"<html>",
        b"[]",
        b"[" * 100_000,
        body(choices=[]),
        body(choices=None),
        body(choices=["x"]),
        body(choices=[{"text": "old format"}]),
        body(choices=[{"message": {"content": 5}}]),
        b"\xff\xfe",
    ],
)
def test_what_is_no_answer_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        read_answer(data)


@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda x: (
            st.lists(x) | st.dictionaries(st.sampled_from(["choices", "message", "content"]), x)
        ),
    ).map(lambda v: json.dumps(v).encode())
)
def test_no_body_at_all_breaks_the_reader(data: bytes) -> None:
    with contextlib.suppress(MalformedAnswer):
        assert isinstance(read_answer(data).content, str)


@given(st.text(st.characters(exclude_categories=()), max_size=700))
def test_shown_text_is_one_short_line_without_control_characters(text: str) -> None:
    line = shortened(text)
    assert len(line) <= 300
    assert line.isprintable()


@given(st.text(st.characters(exclude_categories=())))
def test_valid_unicode_can_always_be_sent_and_changes_nothing_valid(text: str) -> None:
    mended = valid_unicode(text)
    assert mended.encode().decode() == mended
    if not any(0xD800 <= ord(c) < 0xE000 for c in text):
        assert mended == text


def test_the_body_says_all_that_can_change_the_answer() -> None:
    sent = request_body(
        "m",
        ask(max_tokens=9, stop=("END",), temperature=0.5, top_p=0.9),
        EndpointProfile(token_limit_name="max_completion_tokens"),
    )
    assert sent == {
        "model": "m",
        "messages": [{"role": "user", "content": "Write add."}],
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "max_completion_tokens": 9,
        "stop": ["END"],
    }
    assert {"max_tokens", "stop"}.isdisjoint(request_body("m", ask()))


CONTEXT_MESSAGES = [
    (
        "This model's maximum context length is 4096 tokens. However, your messages resulted in "
        "5000 tokens."
    ),
    "request (9031 tokens) exceeds the available context size (8192 tokens), try increasing it",
    "The decoder prompt (length 9000) is longer than the maximum model length of 4096.",
    (
        "You passed 5000 input tokens and requested 100 output tokens. However, the model's "
        "context length is only 4096 tokens"
    ),
    "prompt is too long: 210000 tokens > 200000 maximum",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "The input (9000 tokens) is longer than the model's context length (4096 tokens).",
]


@pytest.mark.parametrize("message", CONTEXT_MESSAGES)
def test_context_length_is_known_by_each_server_s_words(message: str) -> None:
    assert (
        read_fault(400, json.dumps({"error": {"message": message}}), {}, {}).kind
        == "context_length"
    )


@pytest.mark.parametrize(
    ("status", "text", "sent", "kind"),
    [
        (
            400,
            '{"error":{"code":"context_length_exceeded","message":"too much"}}',
            {},
            "context_length",
        ),
        (413, "Request Entity Too Large", {}, "context_length"),
        (
            400,
            '{"error":{"message":"This model\'s maximum context length is 4096 tokens."}}',
            {"max_tokens": 5000},
            "permanent",
        ),
        (400, '{"error":{"code":"content_filter"}}', {}, "content_filter"),
        (
            400,
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'",
            {"max_tokens": 5},
            "token_limit_name",
        ),
        (
            400,
            "Unsupported parameter: 'max_completion_tokens'",
            {"max_completion_tokens": 5},
            "permanent",
        ),
        (400, "temperature does not support 0", {"temperature": 0}, "parameter"),
        (400, "temperature does not support 0", {}, "permanent"),
        *((status, "no", {}, "permanent") for status in (301, 307, 401, 402, 403, 404, 405, 422)),
        *((status, "busy", {}, "overload") for status in (408, 429, 500, 502, 503, 504, 529)),
        (409, "conflict", {}, "transient"),
        (429, '{"error":{"code":"insufficient_quota"}}', {}, "permanent"),
    ],
)
def test_what_an_error_means(status: int, text: str, sent: dict[str, int], kind: str) -> None:
    assert read_fault(status, text, {}, sent).kind == kind


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_seconds_and_as_a_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_s(headers, datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    ("asked", "served", "plausible"),
    [
        ("mock", "mock", True),
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("gpt-4", "gpt-4o", False),
        ("llama-3", "llama-3.1-8b", False),
        ("Qwen/Qwen2.5-7B", "qwen2.5-7b", True),
        ("Qwen2.5-7B", "/models/Qwen2.5-7B", True),
        ("claude-x-latest", "claude-x-20260101", True),
        ("deepseek/deepseek-r1:free", "deepseek/deepseek-r1", True),
        ("smollm2", "other", False),
        ("big", "bigger", False),
    ],
)
def test_which_names_may_answer_for_the_one_asked(asked: str, served: str, plausible: bool) -> None:
    assert is_plausible_name(asked, served) is plausible


@pytest.mark.parametrize(
    "value", ["é\U0001f600", "half a pair: \ud83d", 2**64, -0.5, None, [{"a": "\x00\u2028"}]]
)
def test_a_body_reads_back_as_it_was(value: object) -> None:
    assert json.loads(json_bytes({"value": value})) == {"value": value}
