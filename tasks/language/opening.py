"""Opening of models, and checks and probes of their endpoints."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from schemas.base import Frozen
from schemas.dialog import Role
from schemas.endpoint_profile import EndpointProfile
from schemas.errors import ConfigError, ModelUnavailable
from schemas.run import ModelEndpoint, ModelIdentity, Sampling
from tasks.language.access import CallPolicy, ModelAccess
from tasks.language.chat_model import (
    ChatModel,
    ChatRequest,
    Completion,
    CountedModel,
    Message,
    OnSend,
    ToolSpec,
    ignore_send,
)
from tasks.language.endpoints.faults import Fault, is_no_such_model, shortened
from tasks.language.endpoints.openai_model import OpenAIModel
from tasks.language.endpoints.sticky_model import StickyModel
from tasks.language.endpoints.wire import is_plausible_name
from tasks.language.prompt import PromptedModel
from tasks.language.providers.contract import OpenSettings
from tasks.language.providers.registry import PROVIDERS

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
    gold: Callable[[str, int], str] | None = None,
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
    model = OpenAIModel(replace(access, policy=CHECK), environ=environ)
    try:
        listed = await _listed_models(model)
        if listed is not None and not any(
            is_plausible_name(access.identity.name, name) for name in listed
        ):
            await _check_by_request(model, listed)
    finally:
        await model.aclose()


async def served_facts(
    access: ModelAccess, environ: Mapping[str, str] | None = None
) -> Mapping[str, str] | None:
    """Request the facts that an endpoint reports about a model.

    These are its address, and `root`, `created`, `owned_by` and sizes if it lists them. Return None
    if the endpoint does not answer or lists only other models.

    Raises:
        ConfigError: The key's variable is empty.
    """
    model = OpenAIModel(replace(access, policy=_GLANCE), environ=environ)
    try:
        outcome = await model.call(model.pool(), "/models")
    finally:
        await model.aclose()
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


async def listed_models(
    endpoint: ModelEndpoint, environ: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the names of the models that an endpoint lists.

    Raises:
        ConfigError: The key's variable is empty.
        ModelUnavailable: There is no connection, the key is rejected, or the endpoint lists none.
    """
    identity = ModelIdentity(provider="openai", name="the models of a source")
    model = OpenAIModel(ModelAccess(identity, endpoint, policy=CHECK), environ=environ)
    try:
        listed = await _listed_models(model)
    finally:
        await model.aclose()
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


_POLICY = CallPolicy(concurrency=1, timeout_s=120.0, max_tries=3, retry_window_s=180.0)
_SAMPLING = Sampling(temperature=0.0, top_p=0.9, max_tokens=1024, stop=("<END>",))
_SENT = ("temperature", "top_p", "seed", "stop")
_TOOL = ToolSpec(
    "weather",
    "Report the weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"capital": {"type": "string"}},
    "required": ["capital"],
    "additionalProperties": False,
}
_SYSTEM = (Message(Role.SYSTEM, "Answer with one word."), Message(Role.USER, "Name a colour."))
_TWO_IN_A_ROW = (Message(Role.USER, "I will ask for a colour."), Message(Role.USER, "Name one."))


class Question(Frozen):
    """Probe request and its result."""

    name: str
    answer: str = ""
    """Start of the answer's text."""
    refusal: str = ""
    """Message with which the endpoint refused the request. Empty if it answered."""
    n_calls: int
    seconds: float | None = None
    output_tokens: int | None = None


class EndpointReport(Frozen):
    """Properties of an endpoint and its model, found with six requests."""

    model: str
    url: str
    thinks: bool
    takes_system_role: bool
    takes_equal_roles: bool | None
    """True if the endpoint accepts two messages of one role in a row.

    None if it accepts no system role: requests then have the merged form and cannot show this.
    """
    calls_tools: bool
    """True if the model called a tool with the protocol's own fields."""
    fits_schema: bool
    """True if the endpoint accepted a JSON schema and the answer fitted it."""
    parameters: tuple[str, ...]
    """Parameters of Parley's requests that the endpoint accepts."""
    tokens_per_second: float | None
    """Speed of one answer without parallel requests. None if the endpoint counts no tokens."""
    profile: EndpointProfile
    questions: tuple[Question, ...]


async def probe_endpoint(access: ModelAccess) -> EndpointReport:
    """Send six small requests to an endpoint and describe it.

    Raises:
        ConfigError: The model is not at an endpoint, or the variable of its key is not set.
        ModelUnavailable: The endpoint does not answer, or rejects the key, the model or the
            plainest request.
    """
    if PROVIDERS.load(access.identity.provider).facts is None:
        raise ConfigError(
            f"model {access.label}: only endpoints can be probed; write openai:MODEL@BASE_URL"
        )
    await check_endpoint(access)
    model = OpenAIModel(replace(access, policy=_POLICY))
    try:
        return await _report(model)
    finally:
        await model.aclose()


async def _report(model: OpenAIModel) -> EndpointReport:
    results: list[tuple[Question, Completion | None]] = []

    async def ask(
        name: str, *messages: Message, **more: Any
    ) -> tuple[Completion | None, EndpointProfile]:
        request = ChatRequest(messages, _SAMPLING, 0, "models test", 1, 0, **more)
        try:
            answer = await model.complete(request)
        except ModelUnavailable as error:
            if not results:
                raise
            results.append(
                (Question(name=name, refusal=shortened(str(error)), n_calls=error.n_calls), None)
            )
            return None, model.found_profile
        results.append((_question(name, answer), answer))
        return answer, model.found_profile

    await ask("plain", Message(Role.USER, "What is 17 + 25? Answer with the number alone."))
    system, after_system = await ask("system role", *_SYSTEM)
    equal, after_equal = await ask("equal roles", *_TWO_IN_A_ROW)
    tools, _ = await ask(
        "tools", Message(Role.USER, "What is the weather in Oslo? Use the tool."), tools=(_TOOL,)
    )
    schema, after_schema = await ask(
        "schema", Message(Role.USER, "Name the capital of Norway as JSON."), answer_schema=_SCHEMA
    )
    speed, profile = await ask("speed", Message(Role.USER, "Count from 1 to 100 in words."))
    is_native = after_system.messages != "merged"
    return EndpointReport(
        model=model.identity.label,
        url=model.url,
        thinks=bool(profile.thoughts)
        or any(answer is not None and answer.reasoning_tokens for _, answer in results),
        takes_system_role=is_native and system is not None,
        takes_equal_roles=after_equal.messages != "merged" and equal is not None
        if is_native
        else None,
        calls_tools=profile.takes_tools and tools is not None and bool(tools.calls),
        fits_schema=after_schema.takes_schema and schema is not None and _fits(schema.content),
        parameters=(
            *(name for name in _SENT if name not in profile.refused),
            profile.token_limit_name,
        ),
        tokens_per_second=_speed(speed),
        profile=profile,
        questions=tuple(question for question, _ in results),
    )


def _question(name: str, answer: Completion) -> Question:
    calls = ", ".join(f"{call.name}({call.arguments})" for call in answer.calls)
    return Question(
        name=name,
        answer=shortened(answer.content or calls)[:80],
        n_calls=answer.n_calls,
        seconds=answer.latency_s,
        output_tokens=answer.output_tokens,
    )


def _fits(text: str) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return isinstance(value, dict) and isinstance(value.get("capital"), str)


def _speed(answer: Completion | None) -> float | None:
    if answer is None or not answer.output_tokens or not answer.latency_s or answer.n_calls != 1:
        return None
    return round(answer.output_tokens / answer.latency_s, 1)
