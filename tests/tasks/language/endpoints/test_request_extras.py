"""Further fields and headers of requests: what is sent, what is refused, what is kept out of
texts.
"""

import asyncio
from typing import Any

import pytest

from schemas.content_id import content_id
from schemas.errors import ConfigError, ModelUnavailable
from schemas.run import ModelEndpoint, Sampling
from tasks.language.access import ModelAccess
from tasks.language.endpoints.answers import read_answer
from tasks.language.endpoints.openai_model import OpenAIModel
from tasks.language.endpoints.request_parts import (
    check_headers,
    check_request_fields,
    resolve_headers,
    secret_variables,
    secrets_of,
    without,
)
from tasks.language.endpoints.wire import json_bytes, request_body
from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.tasks.language.requests import MOCK, QUICK, ask, complete

FIELDS = check_request_fields({"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}})


def test_fields_are_in_the_body_and_in_the_id() -> None:
    body = request_body("m", ask(request=FIELDS))
    assert (body["top_k"], body["chat_template_kwargs"]) == (20, {"enable_thinking": False})
    assert body["temperature"] == 0
    assert content_id(Sampling(request=FIELDS)) != content_id(Sampling())
    assert check_request_fields({"b": 1, "a": 2.0}) == check_request_fields({"a": 2, "b": 1})


def test_a_body_does_not_change_the_fields_of_the_next_one() -> None:
    first = request_body("m", ask(request=FIELDS))
    first["top_k"] = 1
    assert request_body("m", ask(request=FIELDS))["top_k"] == 20


def test_an_endpoint_that_refuses_a_field_ends_the_run_and_names_it() -> None:
    said = "Unsupported parameter: 'top_k' is not supported with this model."
    with model_server(
        refuse=lambda body: Reply(400, message=said) if "top_k" in body else None
    ) as server:
        with pytest.raises(ModelUnavailable, match=r"does not accept top_k\. Remove it") as caught:
            complete(server, ask(request=FIELDS))
        assert len(server.bodies) == 1
    assert caught.value.permanent


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": "m"}, "set by Parley: name the model in its spec"),
        ({"max_completion_tokens": 1}, "use --max-tokens"),
        ({"n": 2}, "use --samples"),
        ({"response_format": {}}, "set by Parley"),
        ({"": 1}, "is not a valid field name"),
        ({"a\n": 1}, "is not a valid field name"),
        ({"a": {1, 2}}, "Use a JSON value"),
        ({"a": float("nan")}, "Use a JSON value"),
        ({"api_key": "x"}, "looks like the name of a key"),
        ({"a": [{"access_token": "x"}]}, "looks like the name of a key"),
    ],
)
def test_a_field_that_cannot_be_sent_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_request_fields(fields)


def test_names_like_those_of_keys_that_are_none_may_be_sent() -> None:
    assert check_request_fields(
        {"prompt_cache_key": "a", "min_tokens": 1, "logit_bias": {"50256": -100}}
    )


def test_headers_come_from_the_environment_and_pickle_without_their_values() -> None:
    endpoint = ModelEndpoint(
        base_url="http://a.test/v1", headers=(("X-Team", "TEAM"),), key_env="KEY"
    )
    assert resolve_headers(endpoint, {"TEAM": " eu "}) == {"X-Team": "eu"}
    assert secret_variables(endpoint) == ("KEY", "TEAM")
    for environ in ({}, {"TEAM": " "}, {"TEAM": "a\nb"}, {"TEAM": "ä"}):
        with pytest.raises(ConfigError, match="TEAM") as caught:
            resolve_headers(endpoint, environ)
        assert "a\nb" not in str(caught.value)
    check_headers({"X-Team": "TEAM", "api-key": "KEY"})


def test_secrets_are_the_key_and_long_values_whole_and_by_their_last_word() -> None:
    secrets = secrets_of("k1", {"Authorization": "Bearer abcdefgh", "X-Team": "eu"})
    assert secrets == ("Bearer abcdefgh", "abcdefgh", "k1")
    assert without("Bearer abcdefgh, abcdefgh, k1, eu", secrets) == "[key], [key], [key], eu"


def test_two_models_of_one_address_send_their_own_headers() -> None:
    async def scenario(server: ModelServer) -> None:
        endpoints = [
            ModelEndpoint(base_url=server.base_url, headers=(("X-Team", name),))
            for name in ("A", "B")
        ]
        models = [
            OpenAIModel(ModelAccess(MOCK, one, policy=QUICK), environ={"A": "red", "B": "blue"})
            for one in endpoints
        ]
        for model in models:
            await model.complete(ask())
        for model in models:
            await model.aclose()

    with model_server() as server:
        asyncio.run(scenario(server))
        assert [headers["x-team"] for headers in server.headers] == ["red", "blue"]
        assert not any("authorization" in headers for headers in server.headers)


@pytest.mark.parametrize(
    ("usage", "output", "thoughts"),
    [
        (
            {"completion_tokens": 100, "completion_tokens_details": {"reasoning_tokens": 90}},
            100,
            90,
        ),
        ({"completion_tokens": 10, "completion_tokens_details": {"reasoning_tokens": 90}}, 100, 90),
        (
            {
                "completion_tokens": 95,
                "prompt_tokens": 5,
                "total_tokens": 190,
                "reasoning_tokens": 90,
            },
            185,
            90,
        ),
        (
            {
                "completion_tokens": 95,
                "prompt_tokens": 5,
                "total_tokens": 100,
                "reasoning_tokens": 90,
            },
            95,
            90,
        ),
        ({"completion_tokens": 198, "prompt_tokens": 20, "total_tokens": 623}, 603, None),
        ({"completion_tokens": 198, "prompt_tokens": 20, "total_tokens": 218}, 198, None),
        ({"completion_tokens": 198, "total_tokens": 623}, 198, None),
        ({"completion_tokens": 10, "reasoning_tokens": 0}, 10, 0),
        ({"reasoning_tokens": 7}, None, 7),
    ],
)
def test_output_tokens_hold_the_thoughts_once(
    usage: dict[str, int], output: int | None, thoughts: int | None
) -> None:
    body = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage}
    answer = read_answer(json_bytes(body))
    assert (answer.output_tokens, answer.reasoning_tokens) == (output, thoughts)
