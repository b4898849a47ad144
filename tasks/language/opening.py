"""Opens models, from the identity and endpoint that a run keeps. These can be pickled; an open model cannot."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schemas.endpoint_profile import EndpointProfile
from schemas.errors import ModelUnavailable
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.chat_model import ChatModel
from tasks.language.endpoints.call_policy import CallPolicy
from tasks.language.endpoints.faults import Fault, is_no_such_model, shortened
from tasks.language.endpoints.openai_model import OpenAIModel
from tasks.language.endpoints.sticky_model import StickyModel
from tasks.language.endpoints.wire import is_plausible_name
from tasks.language.providers.contract import OpenSettings
from tasks.language.providers.registry import PROVIDERS
from tasks.language.sends import CountedModel, OnSend, ignore_send
from tasks.language.system_text import PromptedModel

_CHECK = CallPolicy(concurrency=1, connect_s=5.0, timeout_s=30.0)
_CHECK_TRIES = 3
_GLANCE = CallPolicy(concurrency=1, connect_s=3.0, timeout_s=5.0)
_PRESENT_S = 120.0
"""A time of creation so near to the present is that of the answer, and not the model's (vLLM, llama.cpp)."""


def open_model(
    identity: ModelIdentity,
    endpoint: ModelEndpoint,
    *,
    concurrency: int,
    gold: Callable[[str, int], str] | None = None,
    check_served_model: bool = True,
    timeout_s: float = 300.0,
    patience_s: float = 300.0,
    environ: Mapping[str, str] | None = None,
    on_send: OnSend = ignore_send,
) -> ChatModel:
    """Open a model. Nothing is sent or started by it.

    Args:
        concurrency: most requests in flight at once in this process, for all models opened on the endpoint. The replicas of an
            endpoint share it evenly.
        gold: (problem id, round from 1) -> the benchmark's reference answer, for `control:gold`.
        timeout_s: limit of one request.
        patience_s: how long all requests wait together for an endpoint that stopped answering.
        environ: holds the key; the process's environment by default.
        on_send: is told of each request that goes out, once its end is known.

    Raises:
        ConfigError: the key's variable is empty, a local model has no server, or a recording is broken.
        UsageError: a recording is not there, or is not the one that the identity names.
    """
    settings = OpenSettings(
        concurrency, gold, check_served_model, timeout_s, patience_s, environ, on_send
    )
    model = PROVIDERS.load(identity.provider).open(identity, endpoint, settings)
    return model if _client_of(model) or on_send is ignore_send else CountedModel(model, on_send)


def profile_of(model: ChatModel) -> EndpointProfile | None:
    """Return what is known of an opened model's endpoint; None where it has none."""
    client = _client_of(model)
    return client.found_profile if client else None


def _client_of(model: ChatModel) -> OpenAIModel | StickyModel | None:
    """Return Parley's own client within an opened model; None where a recording, a control or a plug-in answers."""
    inner = model.model if isinstance(model, PromptedModel) else model
    return inner if isinstance(inner, (OpenAIModel, StickyModel)) else None


async def check_endpoint(
    identity: ModelIdentity, endpoint: ModelEndpoint, environ: Mapping[str, str] | None = None
) -> None:
    """Ask an endpoint, before a run, whether it is there and knows key and model. Endpoints that list no models are let through.

    Raises:
        ConfigError: the key's variable is empty.
        ModelUnavailable: no connection, a refused key, or a model that the endpoint does not serve.
    """
    model = OpenAIModel(identity, endpoint, policy=_CHECK, environ=environ)
    try:
        listed = await _listed_models(model)
        if listed is not None and not any(
            is_plausible_name(identity.name, name) for name in listed
        ):
            await _check_by_asking(model, listed)
    finally:
        await model.aclose()


async def served_facts(
    identity: ModelIdentity, endpoint: ModelEndpoint, environ: Mapping[str, str] | None = None
) -> Mapping[str, str] | None:
    """Ask an endpoint once what it tells of a model: its address, and `root`, `created`, `owned_by` and sizes if it lists them.

    Returns None where the endpoint does not answer, or lists other models only.

    Raises:
        ConfigError: the key's variable is empty.
    """
    model = OpenAIModel(identity, endpoint, policy=_GLANCE, environ=environ)
    try:
        outcome = await model.call(model.pool(), "/models")
    finally:
        await model.aclose()
    if isinstance(outcome, Fault):
        return {"base_url": model.url} if outcome.status in (404, 405, 501) else None
    rows = _rows(outcome)
    alike = [row for row in rows if is_plausible_name(identity.name, row["id"])]
    row = next((row for row in alike if row["id"] == identity.name), alike[0] if alike else None)
    if row is None:
        return None if rows else {"base_url": model.url}
    return {"base_url": model.url, **_facts(row)}


def _facts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a listed model that tell its weights apart from others."""
    sizes = row.get("meta")
    found = {name: row.get(name) for name in ("root", "parent", "owned_by")}
    found |= (
        {name: sizes.get(name) for name in ("n_params", "size")} if isinstance(sizes, dict) else {}
    )
    created = row.get("created")
    if isinstance(created, (int, float)) and 0 < created < time.time() - _PRESENT_S:
        found["created"] = created
    return {
        name: shortened(str(value))
        for name, value in found.items()
        if value not in (None, "", row["id"])
    }


async def _listed_models(model: OpenAIModel) -> tuple[str, ...] | None:
    """Names that GET /models lists; None where the endpoint has no such list."""
    for tries in range(1, _CHECK_TRIES + 1):
        outcome = await model.call(model.pool(), "/models")
        if not isinstance(outcome, Fault):
            return tuple(row["id"] for row in _rows(outcome)) or None
        if outcome.status == 401:
            raise model.unavailable(outcome, tries)
        if outcome.status is not None and (outcome.status < 500 or outcome.status == 501):
            return () if outcome.status == 403 else None
        if tries == _CHECK_TRIES or outcome.kind == "permanent":
            raise model.unavailable(outcome, tries)
        await asyncio.sleep(0.3 * tries)
    return None


def _rows(data: bytes) -> Sequence[Mapping[str, Any]]:
    """Return the models that a body lists; none where it is no list of models."""
    try:
        rows: Any = json.loads(data)["data"]
        return [row for row in rows if isinstance(row["id"], str)]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


async def listed_models(
    endpoint: ModelEndpoint, environ: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Names of the models that an endpoint lists.

    Raises:
        ConfigError: the key's variable is empty.
        ModelUnavailable: no connection, a refused key, or an endpoint that lists none.
    """
    nobody = ModelIdentity(provider="openai", name="the models of a source")
    model = OpenAIModel(nobody, endpoint, policy=_CHECK, environ=environ)
    try:
        listed = await _listed_models(model)
    finally:
        await model.aclose()
    if not listed:
        raise ModelUnavailable(
            f"source {model.url}: it lists no models. Name one by `models`, openai:MODEL@BASE_URL"
        )
    return listed


async def _check_by_asking(model: OpenAIModel, listed: tuple[str, ...]) -> None:
    """Send one tiny request: gateways serve models that they do not list."""
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
        known = f" It serves: {names}{', ...' if len(listed) > 10 else ''}." if listed else ""
        raise ModelUnavailable(
            f"model {model.identity.name!r} at {model.url}: the endpoint does not know it ({outcome.text}).{known}"
            " Write the model as openai:MODEL@BASE_URL",
            permanent=True,
            n_calls=1,
        )
