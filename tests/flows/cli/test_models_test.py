"""`parley models test` against endpoints with tools, schemas and thoughts, and against those that
refuse them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.gateways import fixed_temperature, strict_roles
from tests.fixtures.model_server import Reply, model_server
from tests.flows.parley_command import parley


def willing(body: Mapping[str, Any]) -> Reply:
    """An endpoint that takes everything, and a model that thinks in a field of its own."""
    if "tools" in body:
        return Reply(calls=(("weather", '{"city": "Oslo"}'),))
    if "response_format" in body:
        return Reply(content='{"capital": "Oslo"}')
    return Reply(content="42", fields=(("reasoning_content", "17 + 25 is 42."),), delay_s=0.05)


def unwilling(body: Mapping[str, Any]) -> Reply | None:
    """A thinking model behind a strict template, which knows neither tools nor schemas."""
    if "tools" in body:
        return Reply(400, message="tools are not supported by this model")
    if "response_format" in body:
        return Reply(400, message="response_format is not supported")
    return fixed_temperature(body) or strict_roles(body)


def test_a_willing_endpoint_is_described(home: Path) -> None:
    with model_server(refuse=willing) as server:
        found = parley(home, "models", "test", f"openai:mock@{server.base_url}", "--json").json()
        assert len(server.bodies) == 6
    assert found["thinks"] is found["takes_system_role"] is found["takes_equal_roles"] is True
    assert found["calls_tools"] is found["fits_schema"] is True
    assert found["parameters"] == ["temperature", "top_p", "seed", "stop", "max_tokens"]
    assert found["profile"]["thoughts"] == ["reasoning_content"]
    assert 0 < found["tokens_per_second"] < 1000
    assert [one["n_calls"] for one in found["questions"]] == [1] * 6
    assert not (home / "lake").exists()


def test_an_unwilling_endpoint_is_described(home: Path) -> None:
    with model_server(refuse=unwilling) as server:
        spec = f"openai:mock@{server.base_url}"
        found = parley(home, "models", "test", spec, "--json").json()
        table = parley(home, "models", "test", spec, "--profile", "openai-reasoning")
    assert (found["thinks"], found["takes_system_role"], found["takes_equal_roles"]) == (
        False,
        False,
        None,
    )
    assert (found["calls_tools"], found["fits_schema"]) == (False, False)
    assert found["profile"] == {
        "refused": ["temperature"],
        "token_limit_name": "max_completion_tokens",
        "takes_schema": False,
        "returns_reasoning": False,
        "takes_tools": False,
        "messages": "merged",
        "reasoning_fields": ["reasoning_content", "reasoning"],
        "reasoning_tags": "auto",
        "thoughts": [],
    }
    assert [one["n_calls"] for one in found["questions"]] == [3, 2, 1, 2, 2, 1]
    assert table.code == 0, table.err
    assert "Parley describes tools in the messages" in table.out
    assert "stop, temperature, top_p" in table.out


@pytest.mark.parametrize(
    ("spec", "message", "code"),
    [
        ("openai:other@{url}", "the endpoint does not serve it", 1),
        ("openai:mock@http://127.0.0.1:9/v1", "no connection", 1),
        ("control:gold", "only endpoints can be probed; write openai:MODEL@BASE_URL", 2),
        ("gpt-5", "gpt-5", 2),
    ],
)
def test_what_cannot_be_asked_is_one_clear_message(
    home: Path, spec: str, message: str, code: int
) -> None:
    def refuse(body: Mapping[str, Any]) -> Reply | None:
        return (
            Reply(404, code="model_not_found", message="no such model")
            if body["model"] != "mock"
            else None
        )

    with model_server(refuse=refuse) as server:
        done = parley(home, "models", "test", spec.format(url=server.base_url))
    assert done.code == code
    assert message in done.err
    assert done.out == ""


def test_a_key_is_sent_and_never_shown(home: Path) -> None:
    with model_server(key="sk-parley-sentinel-5") as server:
        arguments = ("models", "test", f"openai:mock@{server.base_url}", "--key-env", "MY_KEY")
        done = parley(home, *arguments, "--json", environ={"MY_KEY": "sk-parley-sentinel-5"})
        wrong = parley(home, *arguments, environ={"MY_KEY": "sk-parley-sentinel-6"})
    assert json.loads(done.out)["questions"][0]["refusal"] == ""
    assert wrong.code == 1
    assert "check the variable MY_KEY" in wrong.err
    assert "sentinel" not in done.out + done.err + wrong.out + wrong.err
