"""Parsing of chat completions, as OpenAI, vLLM, llama.cpp and gateways write them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.episode import ToolCall
from schemas.run import EndpointProfile
from tasks.language.chat_model import CUT_OFF, UNREADABLE, ChatRequest, Completion
from tasks.language.endpoints.answer_text import AUTO, Thought, calls_in, without_reasoning
from tasks.language.endpoints.wire import SIGNATURE, valid_unicode

REFUSED = "content_filter"
"""Finish reason of an empty answer to a prompt that the endpoint or the model rejected."""
_REFUSALS = frozenset(
    {
        REFUSED,
        "refusal",
        "safety",
        "prohibited_content",
        "blocklist",
        "sensitive",
        "guardrail_intervened",
    }
)
_MOST_TOKENS = 1_000_000_000
"""Largest plausible token count of an answer. A larger count is an error of a gateway."""
_STATUS_OF_NAMES = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "insufficient_quota": 402,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "overloaded_error": 529,
    "server_error": 500,
    "api_error": 500,
}


class MalformedAnswer(ValueError):
    """Error for a body that is not a complete chat completion. A retry may help.

    The error's message may quote the whole body. Shorten it before you show it.
    """


class ErrorInAnswer(MalformedAnswer):
    """Error in the body of an HTTP 200 response.

    `status` is the HTTP status that the error's code stands for, or 200 if the error has no code.
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Answer:
    """Part of a chat completion that Parley reads."""

    content: str
    finish_reason: str | None
    input_tokens: int | None
    output_tokens: int | None
    served_model: str | None
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    """Reasoning from a separate field of the response."""
    reasoning_place: str = ""
    """Name of the response field with the reasoning; `content` if it is a part of the content.

    Empty if there is no reasoning.
    """
    reasoning_tokens: int | None = None
    """Reasoning tokens, part of `output_tokens`."""


def read_answer(
    data: bytes, reasoning_fields: Sequence[str] = ("reasoning_content", "reasoning")
) -> Answer:
    """Read the answer in a response body.

    Args:
        data: The body.
        reasoning_fields: Fields of a message that may contain the model's reasoning.

    Raises:
        ErrorInAnswer: The body or its choice contains an error, beside a partial text or instead of
            one.
        MalformedAnswer: The body is not JSON, is cut off, has no choice with a message, or is empty
            with no tokens.
    """
    try:
        body: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(
            f"the body is not JSON ({len(data)} bytes: {type(error).__name__})"
        ) from None
    body = body if isinstance(body, dict) else {}
    _refuse_error(body.get("error"), data)
    choice = _choice(body, data)
    _refuse_error(choice.get("error"), data)
    if choice.get("finish_reason") == "error":
        raise ErrorInAnswer(
            f"the answer ended with an error: {data.decode('utf-8', 'replace')}", 200
        )
    message = choice.get("message")
    if not isinstance(message, dict):
        raise MalformedAnswer("the first choice contains no message")
    answer = _answer(body, choice, message, reasoning_fields)
    is_silent = (
        not (answer.content or answer.calls or answer.reasoning) and answer.finish_reason != REFUSED
    )
    if is_silent and answer.output_tokens == 0:
        raise MalformedAnswer("the answer is empty and has no tokens")
    return answer


def _answer(
    body: Mapping[str, Any],
    choice: Mapping[str, Any],
    message: Mapping[str, Any],
    fields: Sequence[str],
) -> Answer:
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("completion_tokens_details")
    details = details if isinstance(details, dict) else {}
    content, listed = _parts(message.get("content"))
    place, named = next(
        ((name, text) for name in fields if (text := _thought(message.get(name)))),
        ("content", listed),
    )
    calls = _calls(message.get("tool_calls"))
    thoughts = _count(details.get("reasoning_tokens", usage.get("reasoning_tokens")))
    return Answer(
        content=valid_unicode(content),
        finish_reason=_finish_reason(choice, message, is_empty=not content and not calls),
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_output_tokens(usage, thoughts),
        served_model=_string(body.get("model")),
        calls=calls,
        reasoning=valid_unicode(named),
        reasoning_place=place if named else "",
        reasoning_tokens=thoughts,
    )


def _output_tokens(usage: Mapping[str, Any], thoughts: int | None) -> int | None:
    """Return the tokens of an answer including reasoning, as vendors bill them.

    OpenAI, DeepSeek and vLLM include reasoning in `completion_tokens`. xAI counts it separately:
    the total is then the sum of all three counts. Gemini counts it only in the total.
    """
    completion, prompt, total = (
        _count(usage.get(name)) for name in ("completion_tokens", "prompt_tokens", "total_tokens")
    )
    if completion is None or thoughts == 0:
        return completion
    if thoughts is None:
        return completion if prompt is None or total is None else max(completion, total - prompt)
    is_beside = thoughts > completion or (
        prompt is not None and total == prompt + completion + thoughts
    )
    return completion + thoughts if is_beside else completion


def _finish_reason(
    choice: Mapping[str, Any], message: Mapping[str, Any], *, is_empty: bool
) -> str | None:
    """Return the endpoint's finish reason, or REFUSED if it rejected the prompt without a text."""
    reason = _string(choice.get("finish_reason"))
    is_refused = (reason or "").lower() in _REFUSALS or bool(_string(message.get("refusal")))
    return REFUSED if is_empty and is_refused else reason


def _refuse_error(error: Any, data: bytes) -> None:
    """Raise ErrorInAnswer for the error that a response's body contains."""
    if not error or not isinstance(error, (dict, str)):
        return
    fields = error if isinstance(error, dict) else {}
    statuses = (_status(fields.get(name)) for name in ("code", "status", "type"))
    raise ErrorInAnswer(
        data.decode("utf-8", "replace"), next((status for status in statuses if status), 200)
    )


def _status(code: Any) -> int | None:
    """Return the HTTP status that an error's code stands for: 429, "429" or a name."""
    number = int(code) if isinstance(code, str) and code.isdecimal() and len(code) == 3 else code
    if type(number) is int and 400 <= number < 600:
        return number
    return _STATUS_OF_NAMES.get(code) if isinstance(code, str) else None


def _choice(body: Mapping[str, Any], data: bytes) -> Mapping[str, Any]:
    """Return the choice with index 0, since some servers list several out of order."""
    listed = body.get("choices")
    choices = (
        [choice for choice in listed if isinstance(choice, dict)]
        if isinstance(listed, list)
        else []
    )
    if choices:
        return next((choice for choice in choices if choice.get("index") == 0), choices[0])
    if _is_filtered(body):
        return {"finish_reason": REFUSED, "message": {"content": None}}
    raise MalformedAnswer(f"the body contains no choices: {data.decode('utf-8', 'replace')}")


def _is_filtered(body: Mapping[str, Any]) -> bool:
    """Return True if a body without choices reports a content filter.

    Azure uses `prompt_filter_results`, Google `promptFeedback`.
    """
    feedback = body.get("promptFeedback") or body.get("prompt_feedback")
    if isinstance(feedback, dict) and (feedback.get("blockReason") or feedback.get("block_reason")):
        return True
    return '"filtered": true' in json.dumps(body.get("prompt_filter_results"))


def _calls(listed: Any) -> tuple[ToolCall, ...]:
    """Return the tool calls. Some servers omit ids, or send arguments as an object instead of text.

    A call that names no function is the model's error: it becomes the call UNREADABLE, which is
    answered like any wrong call.
    """
    calls: list[ToolCall] = []
    for number, call in enumerate(listed if isinstance(listed, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if (
            not isinstance(function, dict)
            or not isinstance(function.get("name"), str)
            or not function["name"].strip()
        ):
            function = {"name": UNREADABLE, "arguments": {"call": call}}
        value = function.get("arguments")
        arguments = (
            value
            if isinstance(value, str)
            else json.dumps({} if value is None else value, ensure_ascii=False)
        )
        call_id = (_string(call.get("id")) if isinstance(call, dict) else None) or f"call_{number}"
        call_id += _signature(call)
        name = valid_unicode(function["name"])
        calls.append(
            ToolCall(call_id=valid_unicode(call_id), name=name, arguments=valid_unicode(arguments))
        )
    return tuple(calls)


def _signature(call: Any) -> str:
    """Return Google's signature of the thoughts before a call, after its mark, or ""."""
    for name in ("extra_content", "google", "thought_signature"):
        call = call.get(name) if isinstance(call, dict) else None
    return f"{SIGNATURE}{call}" if call and isinstance(call, str) else ""


def _parts(content: Any) -> tuple[str, str]:
    """Return (text, reasoning) of a message's content: text, or a list of parts of both kinds."""
    if content is None:
        return "", ""
    if isinstance(content, str):
        return content, ""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        thoughts = (_thought(part.get("thinking") or part.get("reasoning")) for part in parts)
        texts = (
            part["text"]
            for part in parts
            if isinstance(part.get("text"), str) and part.get("type") not in _THOUGHTS
        )
        typed = (
            part["text"]
            for part in parts
            if isinstance(part.get("text"), str) and part.get("type") in _THOUGHTS
        )
        return "".join(texts), "".join((*thoughts, *typed))
    raise MalformedAnswer(f"the message's content is a {type(content).__name__}, not text")


_THOUGHTS = ("thinking", "reasoning", "thought")


def _thought(value: Any) -> str:
    """Return the text of reasoning: text, or a list of text parts."""
    if isinstance(value, list):
        return "".join(
            part["text"]
            for part in value
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return value if isinstance(value, str) else ""


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def thought_of(answer: Answer, request: ChatRequest, profile: EndpointProfile) -> Thought:
    """Return the answer's text without its reasoning. The request's tags override the profile's."""
    if not request.sampling.omit_reasoning:
        return Thought(answer.content)
    tags = request.sampling.reasoning_tags
    return without_reasoning(answer.content, profile.reasoning_tags if tags == AUTO else tags)


def completion_of(
    answer: Answer,
    thought: Thought,
    request: ChatRequest,
    latency_s: float,
    n_calls: int,
    *,
    as_text: bool,
) -> Completion:
    """Return the completion for an answer. If `as_text`, its text contains the tool calls."""
    content, calls = (
        calls_in(thought.answer, request.tools) if as_text else (thought.answer, answer.calls)
    )
    is_cut_off = thought.is_cut_off or (
        answer.finish_reason == "length" and not content and not calls
    )
    return Completion(
        content=content,
        finish_reason=CUT_OFF if is_cut_off else answer.finish_reason,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        latency_s=latency_s,
        served_model=answer.served_model,
        n_calls=n_calls,
        calls=calls,
        reasoning="\n\n".join(filter(None, (answer.reasoning, thought.reasoning))),
        reasoning_tokens=answer.reasoning_tokens,
    )
