"""Requests adapt to what an endpoint refuses, once, and each answer tells how."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from schemas.dialog import Role
from schemas.errors import ModelUnavailable
from tasks.language.chat_model import Completion, Message
from tests.fixtures.gateways import fixed_temperature, no_seed, not_both, strict_roles
from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.tasks.language.requests import ask, complete, model_on

SYSTEM = replace(
    ask(), messages=(Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "Write add."))
)
Refuse = Callable[[Mapping[str, Any]], Reply | None]


async def twice(server: ModelServer, **sampling: Any) -> tuple[Completion, Completion]:
    model = model_on(server)
    answers = await model.complete(ask("a", **sampling)), await model.complete(ask("b", **sampling))
    await model.aclose()
    return answers


@pytest.mark.parametrize(
    ("refuse", "sampling", "adapted", "n_first"),
    [
        (fixed_temperature, {"max_tokens": 9}, ("without temperature",), 3),
        (no_seed, {}, ("without seed",), 2),
        (not_both, {"temperature": 0.5, "top_p": 0.9}, ("without top_p",), 2),
    ],
)
def test_a_refused_parameter_is_left_out_from_then_on(
    refuse: Refuse, sampling: dict[str, Any], adapted: tuple[str, ...], n_first: int
) -> None:
    with model_server(refuse=refuse) as server:
        first, second = asyncio.run(twice(server, **sampling))
    assert (first.n_calls, second.n_calls) == (n_first, 1)
    assert first.adapted == second.adapted == adapted
    assert first.finish_reason == "stop"


def test_a_template_without_a_system_role_gets_the_merged_form() -> None:
    with model_server(refuse=strict_roles) as server:
        answer = complete(server, SYSTEM)
        assert [body["messages"] for body in server.bodies][1:] == [
            [{"role": "user", "content": "Be brief.\n\nWrite add."}]
        ]
    assert answer.adapted == ("merged messages",)
    assert answer.n_calls == 2


def test_nothing_is_adapted_where_nothing_is_refused() -> None:
    with model_server() as server:
        answer = complete(server, SYSTEM)
        assert server.bodies[0]["messages"][0] == {"role": "system", "content": "Be brief."}
    assert answer.adapted == ()


@pytest.mark.parametrize(
    ("sampling", "sent"),
    [
        ({}, {"temperature": 0}),
        ({"temperature": None}, {}),
        ({"temperature": None, "top_p": 0.9}, {"top_p": 0.9}),
        ({"temperature": 0.7}, {"temperature": 0.7, "top_p": 1}),
        ({"temperature": 0, "top_p": 0.9}, {"temperature": 0, "top_p": 0.9}),
    ],
)
def test_only_sampling_that_changes_something_is_sent(
    sampling: dict[str, Any], sent: dict[str, float]
) -> None:
    with model_server() as server:
        complete(server, ask(**sampling))
        assert {
            name: value
            for name, value in server.bodies[0].items()
            if name in ("temperature", "top_p")
        } == sent


def test_what_two_models_refuse_on_one_endpoint_stays_apart() -> None:
    def refuse(body: Mapping[str, Any]) -> Reply | None:
        return fixed_temperature(body) if body["model"] == "thinker" else None

    async def scenario(server: ModelServer) -> list[Completion]:
        thinker, plain = model_on(server, name="thinker"), model_on(server)
        answers = [await thinker.complete(ask()), await plain.complete(ask())]
        for model in (thinker, plain):
            await model.aclose()
        return answers

    with model_server(refuse=refuse) as server:
        assert [answer.adapted for answer in asyncio.run(scenario(server))] == [
            ("without temperature",),
            (),
        ]


def test_an_endpoint_that_refuses_a_parameter_for_ever_ends_the_call() -> None:
    """It names a parameter that is not sent any more."""
    with model_server([Reply(400, message="property 'seed' is unsupported")] * 5) as server:
        with pytest.raises(ModelUnavailable, match="seed"):
            complete(server)
        assert len(server.bodies) == 2
