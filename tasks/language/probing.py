"""Probe of an endpoint: six small requests show what it accepts and how it answers."""

import json
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from schemas.base import Frozen
from schemas.dialog import Role
from schemas.errors import ConfigError, ModelUnavailable
from schemas.run import EndpointProfile, Sampling
from tasks.language.access import CallPolicy, ModelAccess
from tasks.language.chat_model import ChatRequest, Completion, Message, ToolSpec
from tasks.language.endpoints.faults import shortened
from tasks.language.endpoints.openai_model import OpenAIModel
from tasks.language.opening import check_endpoint
from tasks.language.providers.registry import PROVIDERS

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
    async with aclosing(OpenAIModel(replace(access, policy=_POLICY))) as model:
        return await _report(model)


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
