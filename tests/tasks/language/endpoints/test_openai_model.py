"""The model client against a server that misbehaves in every way it knows."""

import asyncio
import pickle
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from schemas.errors import ConfigError, ModelUnavailable
from schemas.run import ModelEndpoint
from tasks.language.access import ModelAccess
from tasks.language.endpoints.openai_model import OpenAIModel
from tests.fixtures.model_server import (
    CONTEXT_LENGTH,
    ModelServer,
    Reply,
    default_answer,
    model_server,
)
from tests.fixtures.replies import Fault
from tests.tasks.language.requests import MOCK, QUICK, ask, complete, model_on, refused


def test_an_answer_with_usage_latency_and_reason() -> None:
    with model_server([Reply(delay_s=0.1)]) as server:
        started_s = time.monotonic()
        answer = complete(server, ask(max_tokens=20))
        took_s = time.monotonic() - started_s
        assert server.bodies[0]["max_tokens"] == 20
        assert answer.content == default_answer(server.bodies[0]["messages"])
    assert (answer.finish_reason, answer.served_model, answer.n_calls) == ("stop", "mock", 1)
    assert answer.input_tokens
    assert answer.output_tokens
    assert answer.latency_s is not None
    assert 0.1 <= answer.latency_s <= took_s


FAULTS: tuple[Fault, ...] = ("reset", "truncated", "not_json", "not_http", "empty_choices")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_answer_is_asked_for_again(fault: Fault) -> None:
    with model_server([Reply(fault=fault), Reply(fault=fault)]) as server:
        answer = complete(server)
        assert answer.content == default_answer(server.bodies[0]["messages"])
        assert (answer.n_calls, len(server.bodies)) == (3, 3)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
def test_a_busy_endpoint_is_asked_again(status: int) -> None:
    with model_server([Reply(status=status)]) as server:
        assert complete(server).n_calls == 2


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_an_answer_that_does_not_come_in_time_is_asked_for_again(fault: Fault) -> None:
    with model_server([Reply(fault=fault)]) as server:
        answer = complete(server, policy=replace(QUICK, timeout_s=0.5))
        assert answer.n_calls == len(server.bodies) >= 2  # a slow machine may need one more
    assert answer.latency_s is not None
    assert answer.latency_s >= 0.5


@pytest.mark.slow
@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_honoured(as_date: bool) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=2)
    wanted = format_datetime(moment, usegmt=True) if as_date else "1"
    begun = datetime.now(UTC)
    with model_server([Reply(status=429, headers=(("Retry-After", wanted),))]) as server:
        answer = complete(server)
    ended = datetime.now(UTC)
    assert answer.n_calls == 2
    assert ended >= (moment.replace(microsecond=0) if as_date else begun + timedelta(seconds=1))
    assert ended < begun + timedelta(seconds=30)


def test_a_long_retry_after_is_cut_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with model_server([Reply(status=429, headers=(("Retry-After", "250"),))] * 2) as server:
        started_s = time.monotonic()
        complete(server, policy=replace(QUICK, max_retry_after_s=0.1))
    assert time.monotonic() - started_s < 60
    (record,) = caplog.records
    assert "asks to wait 250 s (HTTP 429: scripted error" in record.getMessage()
    assert "Requests wait up to 900 s. Then they fail" in record.getMessage()


def test_a_retry_after_beyond_the_window_ends_the_request_at_once() -> None:
    error, n_requests = refused([Reply(status=429, headers=(("Retry-After", "86400"),))] * 4)
    assert (n_requests, error.permanent) == (1, False)
    assert "It asks to wait 86400 s, more than the 900 s" in str(error)
    assert "left for the request. Run again after that time" in str(error)


def test_it_gives_up_after_its_tries_and_says_what_happened() -> None:
    error, n_requests = refused([Reply(status=503, message="overheated")] * 10)
    assert n_requests == QUICK.max_tries
    assert not error.permanent
    assert error.n_calls == n_requests
    assert pickle.loads(pickle.dumps(error)).n_calls == n_requests
    assert all(
        part in str(error)
        for part in ("'mock'", "http://127.0.0.1", "HTTP 503", "overheated", "4 tries")
    )


@pytest.mark.slow
def test_it_gives_up_when_its_retry_window_ends() -> None:
    """61 s hold the second wait and one of the tries, not both tries; a slow machine only adds to
    them.
    """
    first = Reply(status=503, delay_s=0.6)
    second = Reply(status=503, delay_s=0.6, headers=(("Retry-After", "60"),))
    error, n_requests = refused([first, second], policy=replace(QUICK, retry_window_s=61.0))
    assert n_requests == error.n_calls == 2
    assert not error.permanent


@pytest.mark.parametrize(
    ("reply", "remedy"),
    [
        (Reply(status=401), "key"),
        (Reply(status=403), "key"),
        (Reply(status=404), "base URL"),
        (Reply(status=422), "sampling"),
        (Reply(status=400, message="top_k does not support 0.0"), "sampling"),
        (Reply(status=400, message="The model `mock` does not exist"), "name"),
        (Reply(status=307, headers=(("Location", "http://127.0.0.1:9/elsewhere"),)), "message"),
        (Reply(status=429, code="insufficient_quota"), "credit"),
    ],
)
def test_what_asking_again_cannot_mend_is_asked_once(reply: Reply, remedy: str) -> None:
    error, n_requests = refused([reply] * 5)
    assert n_requests == error.n_calls == 1
    assert error.permanent
    assert remedy in str(error)
    assert f"HTTP {reply.status}" in str(error)


def test_a_dead_endpoint_is_named_and_no_call_to_it_is_counted() -> None:
    async def scenario() -> None:
        endpoint = ModelEndpoint(base_url="http://127.0.0.1:9/v1")
        model = OpenAIModel(ModelAccess(MOCK, endpoint, policy=QUICK), environ={})
        try:
            await model.complete(ask())
        finally:
            await model.aclose()

    with pytest.raises(
        ModelUnavailable, match=r"'mock' at http://127\.0\.0\.1:9/v1: no connection.*4 tries"
    ) as caught:
        asyncio.run(scenario())
    assert (caught.value.permanent, caught.value.n_calls) == (False, 0)


def test_a_conversation_too_long_is_the_model_s_failure() -> None:
    with model_server([CONTEXT_LENGTH]) as server:
        answer = complete(server)
    assert (answer.content, answer.finish_reason, answer.n_calls) == ("", "context_length", 1)


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_why_an_answer_ended_is_kept(reason: str) -> None:
    with model_server([Reply(content="half", finish_reason=reason)]) as server:
        answer = complete(server)
    assert (answer.content, answer.finish_reason) == ("half", reason)


def test_missing_usage_stays_unknown() -> None:
    with model_server([Reply(usage=False)]) as server:
        answer = complete(server)
    assert (answer.input_tokens, answer.output_tokens) == (None, None)


@pytest.mark.parametrize(
    ("omit", "content"), [(True, "x = 1"), (False, "<think>hm</think>\nx = 1")]
)
def test_a_reasoning_block_is_left_out_where_sampling_says_so(omit: bool, content: str) -> None:
    with model_server([Reply(content="<think>hm</think>\nx = 1")]) as server:
        assert complete(server, ask(omit_reasoning=omit)).content == content


def test_another_model_than_asked_for_is_refused_by_both_names() -> None:
    error, n_requests = refused([Reply(status=503), Reply(model="impostor-7b")])
    assert n_requests == error.n_calls == 2
    assert error.permanent
    assert "'mock'" in str(error)
    assert "'impostor-7b'" in str(error)


def test_the_check_of_the_name_can_be_switched_off() -> None:
    with model_server([Reply(model="impostor-7b")]) as server:
        assert (
            complete(server, policy=replace(QUICK, check_served_model=False)).served_model
            == "impostor-7b"
        )


def test_a_dated_version_of_the_model_is_accepted() -> None:
    with model_server([Reply(model="mock-2026-05-13")]) as server:
        assert complete(server).served_model == "mock-2026-05-13"


def test_a_model_that_refuses_max_tokens_is_asked_by_the_newer_name_from_then_on() -> None:
    refusal = Reply(
        status=400,
        message="Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
    )

    async def scenario(server: ModelServer) -> list[int]:
        model = model_on(server)
        calls = [(await model.complete(ask(max_tokens=5))).n_calls for _ in range(2)]
        await model.aclose()
        return calls

    with model_server([refusal]) as server:
        assert asyncio.run(scenario(server)) == [2, 1]
        assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 5, 5]


async def let_go_when_full(server: ModelServer, in_flight: int) -> None:
    """Lift a server's hold once so many requests wait in it: however slow the machine, they are
    under way together.
    """
    while server.in_flight < in_flight:
        await asyncio.sleep(0.01)
    server.holds_after = None


@pytest.mark.slow
def test_concurrency_is_kept_and_adapts_to_overload() -> None:
    async def scenario(server: ModelServer, n_requests: int) -> int:
        model = model_on(server, policy=replace(QUICK, concurrency=8, max_tries=6))
        filling = asyncio.create_task(let_go_when_full(server, 8))
        answers = await asyncio.gather(
            *(model.complete(ask(f"question {i}")) for i in range(n_requests))
        )
        await filling
        assert len({answer.content for answer in answers}) == n_requests
        limit = model.pool().limit
        assert limit._n_out == 0
        await model.aclose()
        return limit.limit

    with model_server(latency_s=0.2, holds_after=0) as server:
        assert asyncio.run(scenario(server, 40)) == 8
        assert server.max_in_flight == 8
    with model_server([Reply(status=429)] * 8, latency_s=0.2, holds_after=0) as server:
        assert 4 <= asyncio.run(scenario(server, 12)) < 8
        assert len(server.bodies) == 20


@pytest.mark.slow
def test_models_on_one_endpoint_share_client_and_concurrency_until_the_last_is_closed() -> None:
    async def scenario(server: ModelServer) -> None:
        first, second = model_on(server), model_on(server)
        filling = asyncio.create_task(let_go_when_full(server, QUICK.concurrency))
        await asyncio.gather(
            *(model.complete(ask(str(i))) for i in range(6) for model in (first, second))
        )
        await filling
        assert first.pool() is second.pool()
        session = first.pool().session
        await first.aclose()
        assert not session.closed
        await second.complete(ask("still open"))
        await second.aclose()
        assert session.closed

    with model_server(latency_s=0.2, holds_after=0) as server:
        asyncio.run(scenario(server))
        assert server.max_in_flight == QUICK.concurrency


@pytest.mark.slow
def test_models_with_other_limits_of_connecting_share_the_concurrency_all_the_same() -> None:
    async def scenario(server: ModelServer) -> None:
        models = [
            model_on(server, policy=replace(QUICK, connect_s=limit)) for limit in (20.0, 30.0)
        ]
        filling = asyncio.create_task(let_go_when_full(server, QUICK.concurrency))
        await asyncio.gather(*(model.complete(ask(str(i))) for i in range(6) for model in models))
        await filling
        assert models[0].pool() is not models[1].pool()
        for model in models:
            await model.aclose()

    with model_server(latency_s=0.2, holds_after=0) as server:
        asyncio.run(scenario(server))
        assert server.max_in_flight == QUICK.concurrency


def test_an_endpoint_that_takes_no_schema_is_asked_without_it_from_then_on() -> None:
    refusal = Reply(
        status=400,
        code="invalid_request_error",
        message="response_format: json_schema is not supported here",
    )

    async def scenario(server: ModelServer) -> None:
        model = model_on(server)
        for question in ("first", "second"):
            await model.complete(replace(ask(question), answer_schema={"type": "object"}))
        await model.aclose()

    with model_server([refusal]) as server:
        asyncio.run(scenario(server))
        assert ["response_format" in body for body in server.bodies] == [True, False, False]


def test_a_cancelled_call_gives_its_place_back() -> None:
    async def scenario(server: ModelServer) -> None:
        model = model_on(server, policy=replace(QUICK, concurrency=1, timeout_s=30))
        hanging = asyncio.create_task(model.complete(ask()))
        while not server.bodies:
            await asyncio.sleep(0.02)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert (await asyncio.wait_for(model.complete(ask()), 20)).n_calls == 1
        await model.aclose()

    with model_server([Reply(fault="hang")]) as server:
        asyncio.run(scenario(server))


def test_opening_without_the_key_names_the_variable() -> None:
    endpoint = ModelEndpoint(base_url="http://127.0.0.1:9/v1", key_env="MY_KEY")
    with pytest.raises(ConfigError, match="MY_KEY is not set"):
        OpenAIModel(ModelAccess(MOCK, endpoint), environ={})


@pytest.mark.parametrize("status", [401, 402])
def test_one_request_finds_out_that_a_key_is_refused(status: int) -> None:
    async def scenario(server: ModelServer) -> list[ModelUnavailable]:
        model = model_on(server, key="some-key")
        found = await asyncio.gather(
            *(model.complete(ask()) for _ in range(20)), return_exceptions=True
        )
        await model.aclose()
        return [error for error in found if isinstance(error, ModelUnavailable)]

    with model_server(choose=lambda _name, _n: Reply(status=status, delay_s=0.1)) as server:
        errors = asyncio.run(scenario(server))
        assert len(server.bodies) == 1
    assert len(errors) == 20
    assert all(error.permanent and f"HTTP {status}" in str(error) for error in errors)
    assert sum(error.n_calls for error in errors) == 1


def test_a_key_that_was_accepted_is_given_up_after_three_refusals_in_a_row() -> None:
    async def scenario(server: ModelServer) -> int:
        model = model_on(server, key="some-key")
        await model.complete(ask())
        n_refused = 0
        for _ in range(6):
            try:
                await model.complete(ask())
            except ModelUnavailable:
                n_refused += 1
        await model.aclose()
        return n_refused

    with model_server([Reply(), Reply(status=401), Reply(), *[Reply(status=401)] * 9]) as server:
        assert asyncio.run(scenario(server)) == 5
        assert len(server.bodies) == 6


def test_a_slow_first_answer_keeps_the_others_back_for_a_second_only() -> None:
    async def scenario(server: ModelServer) -> None:
        model = model_on(server, key="some-key")
        first = asyncio.create_task(model.complete(ask()))
        await asyncio.sleep(0.05)
        answer = await asyncio.wait_for(model.complete(ask()), 60)
        assert answer.n_calls == 1
        assert not first.done()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await model.aclose()

    with model_server([Reply(delay_s=100.0)]) as server:
        asyncio.run(scenario(server))
