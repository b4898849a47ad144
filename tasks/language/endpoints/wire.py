"""The chat-completions format: request bodies, answers and errors, as OpenAI, vLLM, llama.cpp and gateways write them.

Plain dictionaries on purpose: typed requests and answers of the SDK cost more CPU than everything else in a turn together.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import orjson

from schemas.episode import ToolCall
from schemas.outside.display import plain_line
from tasks.language.chat_model import ChatRequest, Message

TokenLimitName = Literal["max_tokens", "max_completion_tokens"]
_TEXT_LIMIT = 300

_CONTEXT_LENGTH = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context length is only|context window"
    r"|longer than the (?:model's context length|maximum model length)|exceeds the available context size|prompt is too long"
    r"|input token count.{0,40}exceeds the maximum|too (?:long|large) for (?:the )?model|exceeds the model's maximum context",
    re.IGNORECASE | re.DOTALL,
)
_CONTEXT_SIZE = re.compile(r"maximum context length (?:is|of) (\d+)", re.IGNORECASE)
_CONTENT_FILTER = re.compile(r"\bcontent_filter\b|content_policy_violation|content management policy", re.IGNORECASE)
_NO_SUCH_MODEL = re.compile(
    r"model_not_found|(?:no such|unknown|invalid) model"
    r"|model\b.{0,120}\b(?:not exist|not found|is not (?:a )?(?:valid|available))",
    re.IGNORECASE | re.DOTALL,
)
_NO_CREDIT = re.compile(r"insufficient_quota|insufficient (?:balance|credits)|billing_hard_limit", re.IGNORECASE)
_NO_TOOLS = re.compile(
    r"\btools?\b.{0,80}(?:not (?:supported|enabled|available|permitted)|unsupported|unrecognized|unexpected|requires)"
    r"|(?:not support|unsupported|unrecognized|unknown|extra|supports?) .{0,60}\b(?:tools?|tool[_ ](?:use|calls?|choice))\b",
    re.IGNORECASE | re.DOTALL,
)
_LEADING_THOUGHT = re.compile(r"\s*<think>(.*?)(</think>|\Z)", re.DOTALL)
_NO_SCHEMA = re.compile(r"response_format|json_schema|guided|grammar|schema", re.IGNORECASE)
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


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a request gave no answer, and when to ask again.

    `overload`: later, with fewer at once. `transient`: later. `token_limit_name`: at once, with the other name of max_tokens.
    `answer_schema`: at once, without the schema of the answer. `no_tools`: at once, with the tools told as text.
    `permanent`: never. `context_length`, `content_filter`: never; the endpoint's judgement of the conversation is an answer.
    """

    kind: Literal[
        "overload",
        "transient",
        "token_limit_name",
        "answer_schema",
        "no_tools",
        "permanent",
        "context_length",
        "content_filter",
    ]
    text: str
    status: int | None = None
    retry_after_s: float | None = None
    remedy: str = ""


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


def read_fault(status: int, text: str, headers: Mapping[str, str], sent: Mapping[str, Any], now: datetime | None = None) -> Fault:
    """Classify an error response. `sent` is the request's body."""
    said = f"HTTP {status}: {shortened(error_message(text))}"
    if "tools" in sent and status in (400, 404, 422, 500, 501) and _NO_TOOLS.search(text):
        return Fault("no_tools", said, status)
    if status in (408, 409, 425, 429) or status >= 500:
        if _NO_CREDIT.search(text):
            return Fault("permanent", said, status, remedy="The account has no credit left: add some, or use another key")
        kind = "transient" if status in (409, 425) else "overload"
        return Fault(kind, said, status, retry_after_s(headers, now))
    if status in (400, 413, 422):
        return _refused(status, text, said, sent)
    return Fault("permanent", said, status, remedy=_REMEDIES.get(status, "See the endpoint's message"))


def _refused(status: int, text: str, said: str, sent: Mapping[str, Any]) -> Fault:
    if "max_tokens" in sent and "max_completion_tokens" in text and "context length" not in text:
        return Fault("token_limit_name", said, status)
    if "response_format" in sent and _NO_SCHEMA.search(text):
        return Fault("answer_schema", said, status)
    if _CONTEXT_LENGTH.search(text) or status == 413:
        size = _CONTEXT_SIZE.search(text)
        asked = sent.get("max_tokens", sent.get("max_completion_tokens"))
        if size and asked and asked >= int(size.group(1)):
            return Fault("permanent", said, status, remedy=f"max_tokens={asked} alone fills the model's context: lower it")
        return Fault("context_length", said, status)
    if _CONTENT_FILTER.search(text):
        return Fault("content_filter", said, status)
    if _NO_SUCH_MODEL.search(text):
        return Fault("permanent", said, status, remedy=_REMEDIES[404])
    return Fault(
        "permanent", said, status, remedy="The endpoint does not take such a request: see its message, change the sampling"
    )


_REMEDIES = {
    401: "The key was not accepted",
    402: "The account has no credit left: add some, or use another key",
    403: "The key may not use this model",
    404: "Is the model's name right, and does the base URL end where /chat/completions follows (mostly /v1)?",
    405: "Does the base URL end where /chat/completions follows (mostly /v1)?",
}


def is_no_such_model(text: str) -> bool:
    """Whether an error says that the endpoint does not serve the model."""
    return bool(_NO_SUCH_MODEL.search(text))


def error_message(text: str) -> str:
    """The message in an error body, however it is wrapped; else the body's text."""
    try:
        body: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for _ in range(3):
        if isinstance(body, dict):
            body = next((body[name] for name in ("error", "message", "detail") if body.get(name)), body)
    return body if isinstance(body, str) else text


def shortened(text: str) -> str:
    """Text of an endpoint or its log as one line of at most 300 characters, without any that a terminal obeys."""
    return plain_line(" ".join(text.split()), _TEXT_LIMIT)


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the endpoint asks to wait (`Retry-After` as seconds or HTTP date, `retry-after-ms`); None if it says none."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:  # absent, or a date
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (aware - (now or datetime.now(UTC))).total_seconds())


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
