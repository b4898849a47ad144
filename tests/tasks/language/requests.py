"""Requests that the tests of this folder send."""

from typing import Any

from schemas.dialog import Role
from schemas.run import ModelEndpoint, ModelIdentity, Provider, Sampling
from tasks.language.chat_model import ChatRequest, Message
from tasks.language.openai_model import CallPolicy, OpenAIModel
from tests.fixtures.model_server import ModelServer

MOCK = ModelIdentity(provider=Provider.OPENAI, name="mock", revision="r1")
QUICK = CallPolicy(concurrency=4, connect_s=2.0, timeout_s=2.0, max_tries=4, backoff_s=0.02, max_backoff_s=0.05)


def ask(text: str = "Write add.", *, turn: int = 1, sample: int = 0, seed: int = 7, **sampling: Any) -> ChatRequest:
    return ChatRequest((Message(Role.USER, text),), Sampling(**sampling), seed, "function/1", turn, sample)


def model_on(server: ModelServer, *, policy: CallPolicy = QUICK, name: str = "mock", key: str | None = None) -> OpenAIModel:
    """A model on a test server; `key` is given to it by the variable that key_env names."""
    endpoint = ModelEndpoint(base_url=server.base_url, key_env="SOME_KEY" if key else None)
    environ = {"SOME_KEY": key} if key else {}
    return OpenAIModel(MOCK.model_copy(update={"name": name}), endpoint, policy=policy, environ=environ)
