"""What an endpoint says where it gives no answer: refusals and errors, classified by what helps."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from schemas.outside.display import plain_line

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
_NO_SCHEMA = re.compile(r"response_format|json_schema|guided|grammar|schema", re.IGNORECASE)


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
