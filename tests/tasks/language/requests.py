"""Requests that the tests of this folder send, and what comes of them."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from schemas.dialog import Role
from schemas.errors import ModelUnavailable
from schemas.run import ModelEndpoint, ModelIdentity, Sampling
from tasks.language.access import CallPolicy, ModelAccess
from tasks.language.chat_model import ChatRequest, Completion, Message
from tasks.language.endpoints.openai_model import OpenAIModel
from tests.fixtures.model_server import ModelServer, Reply, model_server

MOCK = ModelIdentity(provider="openai", name="mock", revision="r1")
QUICK = CallPolicy(
    concurrency=4, connect_s=10.0, timeout_s=20.0, max_tries=4, backoff_s=0.02, max_backoff_s=0.05
)


def ask(
    text: str = "Write add.", *, turn: int = 1, sample: int = 0, seed: int = 7, **sampling: Any
) -> ChatRequest:
    return ChatRequest(
        (Message(Role.USER, text),), Sampling(**sampling), seed, "function/1", turn, sample
    )


def model_on(
    server: ModelServer, *, policy: CallPolicy = QUICK, name: str = "mock", key: str | None = None
) -> OpenAIModel:
    """A model on a test server; `key` is given to it by the variable that key_env names."""
    endpoint = ModelEndpoint(base_url=server.base_url, key_env="SOME_KEY" if key else None)
    environ = {"SOME_KEY": key} if key else {}
    identity = MOCK.model_copy(update={"name": name})
    return OpenAIModel(ModelAccess(identity, endpoint, policy=policy), environ=environ)


def complete(
    server: ModelServer,
    request: ChatRequest | None = None,
    *,
    policy: CallPolicy = QUICK,
    name: str = "mock",
    key: str | None = None,
) -> Completion:
    async def scenario() -> Completion:
        model = model_on(server, policy=policy, name=name, key=key)
        try:
            return await model.complete(request or ask())
        finally:
            await model.aclose()

    return asyncio.run(scenario())


def refused(script: Sequence[Reply], *, policy: CallPolicy = QUICK) -> tuple[ModelUnavailable, int]:
    """The error that a script ends in, and how many requests were sent."""
    with model_server(script) as server:
        with pytest.raises(ModelUnavailable) as caught:
            complete(server, policy=policy)
        return caught.value, len(server.bodies)
