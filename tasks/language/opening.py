"""Opens models, from the identity and endpoint that a run keeps. These can be pickled; an open model cannot."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError, ModelUnavailable, UsageError
from schemas.run import ModelEndpoint, ModelIdentity, Provider
from tasks.language.chat_model import ChatModel
from tasks.language.control_model import ControlModel, silence
from tasks.language.endpoints.call_policy import CallPolicy
from tasks.language.endpoints.faults import Fault, is_no_such_model
from tasks.language.endpoints.openai_model import OpenAIModel
from tasks.language.endpoints.outage import OutagePolicy
from tasks.language.endpoints.sticky_model import StickyModel
from tasks.language.endpoints.wire import is_plausible_name
from tasks.language.recorded_model import RecordedModel, Recording, load_recording

_CHECK = CallPolicy(concurrency=1, connect_s=5.0, timeout_s=30.0)
_CHECK_TRIES = 3


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
) -> ChatModel:
    """Open a model. Nothing is sent or started by it.

    Args:
        concurrency: most requests in flight at once in this process, for all models opened on the endpoint. The replicas of an
            endpoint share it evenly.
        gold: (problem id, round from 1) -> the benchmark's reference answer, for `control:gold`.
        timeout_s: limit of one request.
        patience_s: how long all requests wait together for an endpoint that stopped answering.
        environ: holds the key; the process's environment by default.

    Raises:
        ConfigError: the key's variable is empty, a local model has no server, or a recording is broken.
        UsageError: a recording is not there, or is not the one that the identity names.
    """
    match identity.provider:
        case Provider.RECORDED:
            return RecordedModel(identity, _same_recording(identity, Path(endpoint.path or identity.name)))
        case Provider.CONTROL:
            return ControlModel(identity, _control_answers(identity, gold))
        case Provider.EMBEDDED | Provider.VLLM if endpoint.base_url is None:
            raise ConfigError(
                f"model {identity.label}: its server is not running; start it first and give its address as base_url"
            )
        case _:
            places = [endpoint.model_copy(update={"base_url": url, "replicas": ()}) for url in endpoint.replicas] or [endpoint]
            policy = CallPolicy(
                concurrency=-(-concurrency // len(places)),
                timeout_s=timeout_s,
                check_served_model=check_served_model,
                outage=OutagePolicy(patience_s=patience_s),
            )
            models = [OpenAIModel(identity, place, policy=policy, environ=environ) for place in places]
            return StickyModel(models) if len(models) > 1 else models[0]


def _same_recording(identity: ModelIdentity, path: Path) -> Recording:
    recording = load_recording(path)
    if identity.weights_digest not in ("", recording.digest):
        raise UsageError(
            f"recording {path}: its answers changed since the run was begun (digest {recording.digest}, the run's is"
            f" {identity.weights_digest}). Put the file back and type the same command, or begin a run on the new one"
        )
    return recording


def _control_answers(identity: ModelIdentity, gold: Callable[[str, int], str] | None) -> Callable[[str, int], str]:
    if identity.name == "empty":
        return silence
    if gold is None:
        raise ConfigError(f"model {identity.label}: this benchmark offers no reference answers")
    return gold


async def check_endpoint(identity: ModelIdentity, endpoint: ModelEndpoint, environ: Mapping[str, str] | None = None) -> None:
    """Ask an endpoint, before a run, whether it is there and knows key and model. Endpoints that list no models are let through.

    Raises:
        ConfigError: the key's variable is empty.
        ModelUnavailable: no connection, a refused key, or a model that the endpoint does not serve.
    """
    model = OpenAIModel(identity, endpoint, policy=_CHECK, environ=environ)
    try:
        listed = await _listed_models(model)
        if listed is not None and not any(is_plausible_name(identity.name, name) for name in listed):
            await _check_by_asking(model, listed)
    finally:
        await model.aclose()


async def _listed_models(model: OpenAIModel) -> tuple[str, ...] | None:
    """Names that GET /models lists; None where the endpoint has no such list."""
    for tries in range(1, _CHECK_TRIES + 1):
        outcome = await model.call(model.pool(), "/models")
        if not isinstance(outcome, Fault):
            return _names(outcome)
        if outcome.status == 401:
            raise model.unavailable(outcome, tries)
        if outcome.status is not None and (outcome.status < 500 or outcome.status == 501):
            return () if outcome.status == 403 else None
        if tries == _CHECK_TRIES or outcome.kind == "permanent":
            raise model.unavailable(outcome, tries)
        await asyncio.sleep(0.3 * tries)
    return None


def _names(data: bytes) -> tuple[str, ...] | None:
    try:
        rows: Any = json.loads(data)["data"]
        return tuple(row["id"] for row in rows if isinstance(row["id"], str)) or None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


async def listed_models(endpoint: ModelEndpoint, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Names of the models that an endpoint lists.

    Raises:
        ConfigError: the key's variable is empty.
        ModelUnavailable: no connection, a refused key, or an endpoint that lists none.
    """
    nobody = ModelIdentity(provider=Provider.OPENAI, name="the models of a source")
    model = OpenAIModel(nobody, endpoint, policy=_CHECK, environ=environ)
    try:
        listed = await _listed_models(model)
    finally:
        await model.aclose()
    if not listed:
        raise ModelUnavailable(f"source {model.url}: it lists no models. Name one by `models`, openai:MODEL@BASE_URL")
    return listed


async def _check_by_asking(model: OpenAIModel, listed: tuple[str, ...]) -> None:
    """Send one tiny request: gateways serve models that they do not list."""
    body = {"model": model.identity.name, "messages": [{"role": "user", "content": "Say ok."}], "max_tokens": 1}
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
