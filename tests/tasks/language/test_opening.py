"""Opening models from picklable arguments, and the check before a run."""

import asyncio
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from schemas.errors import ConfigError, ModelUnavailable, ReferenceMissing
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.access import ModelAccess
from tasks.language.model_spec import parse_model
from tasks.language.opening import check_endpoint, open_model
from tasks.language.recorded_model import RecordedAnswer, write_recording
from tests.fixtures.model_server import ModelServer, Reply, default_answer, model_server
from tests.tasks.language.requests import ask


def answer_of(access: ModelAccess) -> str:
    async def scenario() -> str:
        model = open_model(access, gold=lambda problem, turn: f"{problem} {turn}", environ={})
        try:
            return (await model.complete(ask())).content
        finally:
            await model.aclose()

    return asyncio.run(scenario())


def test_each_provider_opens(tmp_path: Path) -> None:
    write_recording(tmp_path / "r.jsonl.gz", [RecordedAnswer("function/1", 1, "recorded")])
    assert answer_of(parse_model(f"recorded:{tmp_path / 'r.jsonl.gz'}")) == "recorded"
    assert answer_of(parse_model("control:gold")) == "function/1 1"
    assert answer_of(parse_model("control:empty")) == ""
    with model_server() as server:
        assert answer_of(parse_model(f"openai:mock@{server.base_url}")) == default_answer(
            server.bodies[0]["messages"]
        )
        local = ModelIdentity(provider="vllm", name="mock")
        assert answer_of(ModelAccess(local, ModelEndpoint(base_url=server.base_url, path="mock")))


@pytest.mark.slow
def test_it_opens_in_another_process_from_what_can_be_pickled() -> None:
    with model_server() as server:
        access = pickle.loads(pickle.dumps(parse_model(f"openai:mock@{server.base_url}")))
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
            assert processes.submit(answer_of, access).result(60) == default_answer(
                server.bodies[0]["messages"]
            )


def test_opening_sends_nothing() -> None:
    with model_server() as server:
        open_model(parse_model(f"openai:mock@{server.base_url}"))
        assert (server.bodies, server.model_lists) == ([], 0)


@pytest.mark.parametrize("provider", ["embedded", "vllm"])
def test_a_local_model_without_its_server_is_refused(provider: str) -> None:
    with pytest.raises(ConfigError, match="server is not running"):
        open_model(ModelAccess(ModelIdentity(provider=provider, name="m"), ModelEndpoint()))


def test_gold_needs_a_benchmark_with_references() -> None:
    with pytest.raises(ConfigError, match="no reference answers"):
        open_model(parse_model("control:gold"))


def test_gold_without_a_reference_gives_no_empty_answer() -> None:
    model = open_model(parse_model("control:gold"), gold=lambda problem, turn: None)
    with pytest.raises(ReferenceMissing, match="problem 'function/1', turn 1"):
        asyncio.run(model.complete(ask()))


def check(server: ModelServer, name: str = "mock", key: str | None = None) -> None:
    access = parse_model(f"openai:{name}@{server.base_url}", key_env="SOME_KEY" if key else None)
    asyncio.run(check_endpoint(access, {"SOME_KEY": key} if key else {}))


def test_a_listed_model_passes_without_any_request_to_it() -> None:
    with model_server(models=("other", "mock")) as server:
        check(server)
        assert (len(server.bodies), server.model_lists) == (0, 1)


@pytest.mark.parametrize("status", [404, 405, 429, 501])
def test_an_endpoint_that_lists_no_models_is_let_through(status: int) -> None:
    with model_server(models_status=status) as server:
        check(server)
        assert server.bodies == []


def test_an_endpoint_without_any_model_in_its_list_is_let_through() -> None:
    with model_server(models=()) as server:
        check(server, "anything")
        assert server.bodies == []


def test_a_model_that_is_served_but_not_listed_passes() -> None:
    with model_server(models=("other",)) as server:
        check(server, "hidden")
        assert len(server.bodies) == 1


def test_an_unknown_model_is_answered_with_those_that_are_served() -> None:
    unknown = Reply(status=404, code="model_not_found", message="The model `nope` does not exist")
    with model_server([unknown], models=("qwen", "llama")) as server:
        with pytest.raises(
            ModelUnavailable, match=r"'nope' at .*does not serve it.*It serves: llama, qwen"
        ) as caught:
            check(server, "nope")
    assert caught.value.permanent


def test_listed_names_command_no_terminal() -> None:
    unknown = Reply(status=404, code="model_not_found", message="\x1b[2Jgone")
    with model_server([unknown], models=("qwen\x1b]0;EVIL\x07\nFAKE",)) as server:
        with pytest.raises(ModelUnavailable, match="EVIL FAKE") as caught:
            check(server, "nope")
    assert str(caught.value).isprintable()
    assert caught.value.n_calls == 1


def test_a_wrong_key_names_its_variable_and_not_itself() -> None:
    with model_server(key="right") as server:
        check(server, key="right")
        with pytest.raises(
            ModelUnavailable, match=r"HTTP 401.*check the variable SOME_KEY"
        ) as caught:
            check(server, key="sk-SENTINEL")
        with pytest.raises(
            ModelUnavailable, match=r"HTTP 401.*--key-env \(`key_env` in a configuration"
        ):
            check(server)
    assert "SENTINEL" not in str(caught.value)


def test_a_key_that_may_list_nothing_is_tried_on_the_model() -> None:
    with model_server(models_status=403) as server:
        check(server)
        assert len(server.bodies) == 1


@pytest.mark.slow
def test_a_dead_endpoint_is_one_clear_error() -> None:
    with pytest.raises(
        ModelUnavailable,
        match=r"'mock' at http://127\.0\.0\.1:9/v1: no connection.*Check the address",
    ) as caught:
        check(ModelServer(base_url="http://127.0.0.1:9/v1"))
    assert len(str(caught.value)) < 400


def test_a_missing_key_is_known_before_anything_is_sent() -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        asyncio.run(check_endpoint(parse_model("openai:gpt-5"), {}))
