"""The chat-completions format: request bodies and answers, as OpenAI, vLLM, llama.cpp and gateways write them.

Plain dictionaries on purpose: typed requests and answers of the SDK cost more CPU than everything else in a turn together.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from schemas.episode import ToolCall
from tasks.language.chat_model import ChatRequest, Message

TokenLimitName = Literal["max_tokens", "max_completion_tokens"]

_LEADING_THOUGHT = re.compile(r"\s*<think>(.*?)(</think>|\Z)", re.DOTALL)
_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)+")


class MalformedAnswer(ValueError):
    """A body that is no chat completion; a retry may bring a whole one. The message may quote the whole body: shorten it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The part of a chat completion that Parley reads."""

    content: str
    finish_reason: str | None
    input_tokens: int | None
    output_tokens: int | None
    served_model: str | None
    calls: tuple[ToolCall, ...] = ()


def json_bytes(body: Mapping[str, Any]) -> bytes:
    """A body as JSON. It is most of what a long request costs, and orjson takes a tenth of the time."""
    try:
        return orjson.dumps(body)
    except TypeError:  # a lone surrogate, which UTF-8 cannot hold, or an integer beyond 64 bits
        return json.dumps(body).encode()


def request_body(
    model: str, request: ChatRequest, token_limit_name: TokenLimitName, *, takes_schema: bool = True
) -> dict[str, Any]:
    """Body of POST /chat/completions. Temperature, top_p and seed are always said: servers' defaults differ."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(m) for m in request.messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": request.seed,
    }
    if sampling.max_tokens is not None:
        body[token_limit_name] = sampling.max_tokens
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
            for t in request.tools
        ]
    if request.answer_schema is not None and takes_schema:
        schema = {"name": "answer", "schema": request.answer_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _message(message: Message) -> dict[str, Any]:
    said: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.calls:
        said["tool_calls"] = [
            {"id": c.call_id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in message.calls
        ]
    if message.call_id is not None:
        said["tool_call_id"] = message.call_id
    return said


def read_answer(data: bytes) -> Answer:
    """The answer in a response body.

    Raises:
        MalformedAnswer: not JSON, cut off, or without a choice that holds a message.
    """
    try:
        body: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"the body is not JSON ({len(data)} bytes: {type(error).__name__})") from None
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise MalformedAnswer(f"the body holds no choices: {data.decode('utf-8', 'replace')}")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise MalformedAnswer("the first choice holds no message")
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Answer(
        content=valid_unicode(_text(message.get("content"))),
        finish_reason=_string(choices[0].get("finish_reason")),
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        served_model=_string(body.get("model")),
        calls=_calls(message.get("tool_calls")),
    )


def _calls(listed: Any) -> tuple[ToolCall, ...]:
    """The tools asked for. Some servers leave out ids, or send arguments as an object instead of its text."""
    calls: list[ToolCall] = []
    for number, call in enumerate(listed if isinstance(listed, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise MalformedAnswer(f"tool call {number + 1} names no function: {json.dumps(call)}")
        given = function.get("arguments")
        arguments = given if isinstance(given, str) else json.dumps({} if given is None else given, ensure_ascii=False)
        call_id = _string(call.get("id")) or f"call_{number}"
        name = valid_unicode(function["name"])
        calls.append(ToolCall(call_id=valid_unicode(call_id), name=name, arguments=valid_unicode(arguments)))
    return tuple(calls)


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    raise MalformedAnswer(f"the message's content is a {type(content).__name__}, not text")


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def valid_unicode(text: str) -> str:
    """The text with lone surrogates replaced: JSON can carry them, UTF-8 (requests, Parquet) cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def without_reasoning(content: str) -> str:
    """The answer after a leading `<think>` block; empty where that block was never closed (the tokens ran out)."""
    thought = _LEADING_THOUGHT.match(content)
    if thought is None:
        return content
    rest = content[thought.end() :]
    blank = _BLANK_LINES.match(rest)
    return rest[blank.end() :] if blank else rest


_DATE_OR_TAG = re.compile(r"(?:[-_:@/ ]|$)")


def is_plausible_name(asked: str, served: str) -> bool:
    """Whether the model that answered may be the one asked for: the same, dated or tagged, or the last part of its path."""
    wanted, found = asked.lower().strip("/"), served.lower().strip("/")
    names = {wanted, wanted.rsplit("/", 1)[-1]}
    names |= {name.rsplit(":", 1)[0] for name in names} | {name.removesuffix("-latest") for name in names}
    return any(
        other.startswith(name) and _DATE_OR_TAG.match(other, len(name))
        for name in names
        for other in (found, found.rsplit("/", 1)[-1])
        if name
    )
