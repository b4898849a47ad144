"""Opening of models, on one server or several, and checks of their endpoints."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import reduce
from typing import Any

from schemas.errors import ModelUnavailable
from schemas.run import EndpointProfile, ModelEndpoint, ModelIdentity
from tasks.language.access import CallPolicy, ModelAccess
from tasks.language.chat_model import (
    ChatModel,
    ChatRequest,
    Completion,
    CountedModel,
    OnSend,
    ignore_send,
)
from tasks.language.endpoints.faults import Fault, is_no_such_model, shortened
from tasks.language.endpoints.openai_model import OpenAIModel
from tasks.language.endpoints.wire import is_plausible_name
from tasks.language.prompt import PromptedModel
from tasks.language.providers.contract import OpenSettings
from tasks.language.providers.registry import PROVIDERS

_Dialogue = tuple[str, str, int]


class StickyModel:
    """Model that keeps each dialogue on one server.

    A new dialogue goes to the server with the fewest dialogues. It changes to another server only
    if its server is down.
    """

    def __init__(self, replicas: Sequence[OpenAIModel]) -> None:
        self._replicas = tuple(replicas)
        self._place: dict[_Dialogue, int] = {}
        self._n_dialogues: Counter[int] = Counter()

    @property
    def identity(self) -> ModelIdentity:
        """Return the identity, which is equal on all servers."""
        return self._replicas[0].identity

    @property
    def found_profile(self) -> EndpointProfile:
        """Return the servers' joined profile, as learned from their rejections and answers."""
        first, *others = (replica.found_profile for replica in self._replicas)
        return reduce(EndpointProfile.joined, others, first)

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request on the dialogue's server, or on another one if that is down.

        Raises:
            ModelUnavailable: No server gave a usable answer.
        """
        dialogue = (request.problem_id, request.dialog_id, request.sample)
        tried, n_calls, was_sent = set[int](), 0, False
        while True:
            place = self._choose_replica(dialogue, tried)
            tried.add(place)
            try:
                answer = await self._replicas[place].complete(request, is_repeated=was_sent)
            except ModelUnavailable as error:
                n_calls, was_sent = n_calls + error.n_calls, was_sent or error.was_sent
                if error.permanent or len(tried) == len(self._replicas):
                    error.n_calls, error.was_sent = n_calls, was_sent
                    raise
                continue
            return _with_calls(answer, n_calls)

    def _choose_replica(self, dialogue: _Dialogue, tried: set[int]) -> int:
        current = self._place.get(dialogue)
        if current is not None and current not in tried and not self._is_down(current):
            return current
        left = [place for place in range(len(self._replicas)) if place not in tried]
        up = [place for place in left if not self._is_down(place)]
        if not up and current in left:
            return current
        choice = min(up or left, key=lambda place: (self._n_dialogues[place], place))
        self._place[dialogue] = choice
        self._n_dialogues[choice] += 1
        return choice

    def _is_down(self, place: int) -> bool:
        return self._replicas[place].pool().watch.is_down

    async def aclose(self) -> None:
        """Leave all servers."""
        for replica in self._replicas:
            await replica.aclose()


def _with_calls(answer: Completion, n_before: int) -> Completion:
    return replace(answer, n_calls=answer.n_calls + n_before) if n_before else answer


CHECK = CallPolicy(concurrency=1, connect_s=5.0, timeout_s=30.0)
"""Limits of the requests that check an endpoint before a run."""
CHECK_TRIES = 3
_GLANCE = CallPolicy(concurrency=1, connect_s=3.0, timeout_s=5.0)
_PRESENT_S = 120.0
"""Minimum age in seconds of a creation time that describes the model.

vLLM and llama.cpp report the time of the answer instead.
"""


def open_model(
    access: ModelAccess,
    *,
    gold: Callable[[str, int], str | None] | None = None,
    environ: Mapping[str, str] | None = None,
    on_send: OnSend = ignore_send,
) -> ChatModel:
    """Open a model. Sends and starts nothing.

    Args:
        access: Access to the model.
        gold: Returns the benchmark's reference answer for (problem id, 1-based round). For
            `control:gold`.
        environ: Environment variables, with the key. Default: those of the process.
        on_send: Called for each sent request, once it has ended.

    Raises:
        ConfigError: The key's variable is empty, a local model has no server, or a recording is
            broken.
        UsageError: A recording does not exist, or differs from the one in the identity.
    """
    settings = OpenSettings(gold, environ, on_send)
    model = PROVIDERS.load(access.identity.provider).open(access, settings)
    return model if _client_of(model) or on_send is ignore_send else CountedModel(model, on_send)


def profile_of(model: ChatModel) -> EndpointProfile | None:
    """Return the profile of an opened model's endpoint, or None without an endpoint."""
    client = _client_of(model)
    return client.found_profile if client else None


def _client_of(model: ChatModel) -> OpenAIModel | StickyModel | None:
    """Return Parley's client in an opened model, or None for recordings, controls and plug-ins."""
    inner = model.model if isinstance(model, PromptedModel) else model
    return inner if isinstance(inner, (OpenAIModel, StickyModel)) else None


async def check_endpoint(access: ModelAccess, environ: Mapping[str, str] | None = None) -> None:
    """Check before a run that an endpoint answers and accepts the key and the model.

    An endpoint that lists no models passes.

    Raises:
        ConfigError: The key's variable is empty.
        ModelUnavailable: There is no connection, the key is rejected, or the endpoint does not
            serve the model.
    """
    async with aclosing(OpenAIModel(replace(access, policy=CHECK), environ=environ)) as model:
        listed = await _listed_models(model)
        if listed is not None and not any(
            is_plausible_name(access.identity.name, name) for name in listed
        ):
            await _check_by_request(model, listed)


async def served_facts(
    access: ModelAccess, environ: Mapping[str, str] | None = None
) -> Mapping[str, str] | None:
    """Request the facts that an endpoint reports about a model.

    These are its address, and `root`, `created`, `owned_by` and sizes if it lists them. Return None
    if the endpoint does not answer or lists only other models.

    Raises:
        ConfigError: The key's variable is empty.
    """
    async with aclosing(OpenAIModel(replace(access, policy=_GLANCE), environ=environ)) as model:
        outcome = await model.call(model.pool(), "/models")
    if isinstance(outcome, Fault):
        return {"base_url": model.url} if outcome.status in (404, 405, 501) else None
    rows = _rows(outcome)
    candidates = [row for row in rows if is_plausible_name(access.identity.name, row["id"])]
    named = [row for row in candidates if row["id"] == access.identity.name]
    row = next(iter(named or candidates), None)
    if row is None:
        return None if rows else {"base_url": model.url}
    return {"base_url": model.url, **_facts(row)}


def _facts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return those fields of a model listed by an endpoint that tell its weights from others."""
    sizes = row.get("meta")
    facts = {name: row.get(name) for name in ("root", "parent", "owned_by")}
    facts |= (
        {name: sizes.get(name) for name in ("n_params", "size")} if isinstance(sizes, dict) else {}
    )
    created = row.get("created")
    if isinstance(created, (int, float)) and 0 < created < time.time() - _PRESENT_S:
        facts["created"] = created
    return {
        name: shortened(str(value))
        for name, value in facts.items()
        if value not in (None, "", row["id"])
    }


async def _listed_models(model: OpenAIModel) -> tuple[str, ...] | None:
    """Return the names that GET /models lists, or None if the endpoint has no such list."""
    for tries in range(1, CHECK_TRIES + 1):
        outcome = await model.call(model.pool(), "/models")
        if not isinstance(outcome, Fault):
            return tuple(row["id"] for row in _rows(outcome)) or None
        if outcome.status == 401:
            raise model.unavailable(outcome, tries)
        if outcome.status is not None and (outcome.status < 500 or outcome.status == 501):
            return () if outcome.status == 403 else None
        if tries == CHECK_TRIES or outcome.kind == "permanent":
            raise model.unavailable(outcome, tries)
        await asyncio.sleep(0.3 * tries)
    return None


def _rows(data: bytes) -> Sequence[Mapping[str, Any]]:
    """Return the models that a body lists, or none if it is not a list of models."""
    try:
        rows: Any = json.loads(data)["data"]
        return [row for row in rows if isinstance(row["id"], str)]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


async def listed_models(endpoint: ModelEndpoint) -> tuple[str, ...]:
    """Return the names of the models that an endpoint lists.

    Raises:
        ConfigError: The key's variable is empty.
        ModelUnavailable: There is no connection, the key is rejected, or the endpoint lists none.
    """
    identity = ModelIdentity(provider="openai", name="the models of a source")
    async with aclosing(OpenAIModel(ModelAccess(identity, endpoint, policy=CHECK))) as model:
        listed = await _listed_models(model)
    if not listed:
        raise ModelUnavailable(
            f"source {model.url} lists no models. Name a model in `models` as openai:MODEL@BASE_URL"
        )
    return listed


async def _check_by_request(model: OpenAIModel, listed: tuple[str, ...]) -> None:
    """Send one tiny request, since gateways serve models that they do not list."""
    body = {
        "model": model.identity.name,
        "messages": [{"role": "user", "content": "Say ok."}],
        "max_tokens": 1,
    }
    outcome = await model.ask(model.pool(), body)
    if not isinstance(outcome, Fault) or outcome.kind != "permanent":
        return
    if outcome.status in (401, 402, 403):
        raise model.unavailable(outcome, 1)
    if outcome.status == 404 or is_no_such_model(outcome.text):
        names = ", ".join(model.shown(name) for name in sorted(listed)[:10])
        served = f" It serves: {names}{', ...' if len(listed) > 10 else ''}." if listed else ""
        raise ModelUnavailable(
            f"model {model.identity.name!r} at {model.url}: the endpoint does not serve it"
            f" ({outcome.text}).{served} Write the model as openai:MODEL@BASE_URL",
            permanent=True,
            n_calls=1,
        )
