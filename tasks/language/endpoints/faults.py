"""What an endpoint says where it gives no answer: refusals and errors, classified by what helps."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ssl import SSLCertVerificationError
from typing import Any, Literal

from schemas.outside.display import plain_line
from tasks.language.endpoints.message_form import is_merged
from tasks.language.endpoints.vendor_words import find_words, refused_parameter

_GATEWAY_GAVE_UP = (504, 524)
"""Statuses of a gateway that waited in vain for a model at work."""
DROPPABLE = ("temperature", "top_p", "seed", "stop")
"""Parameters that Parley sends by itself, and leaves out where an endpoint refuses them."""
_TEXT_LIMIT = 300

_CONTEXT_SIZE = re.compile(r"maximum context length (?:is|of) (\d+)", re.IGNORECASE)
_NO_SUCH_MODEL = re.compile(
    r"model_not_found|(?:no such|unknown|invalid) model"
    r"|model\b.{0,120}\b(?:not exist|not found|is not (?:a )?(?:valid|available))",
    re.IGNORECASE | re.DOTALL,
)
_NO_CREDIT = re.compile(
    r"insufficient_quota|insufficient (?:balance|credits)|billing_hard_limit", re.IGNORECASE
)
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
    `parameter`: at once, without the one that `parameter` names. `merged_messages`: at once, in the merged form.
    `permanent`: never. `context_length`, `content_filter`: never; the endpoint's judgement of the conversation is an answer.
    """

    kind: Literal[
        "overload",
        "transient",
        "token_limit_name",
        "answer_schema",
        "no_tools",
        "parameter",
        "merged_messages",
        "permanent",
        "context_length",
        "content_filter",
    ]
    text: str
    status: int | None = None
    retry_after_s: float | None = None
    remedy: str = ""
    parameter: str = ""
    is_sent: bool = True
    """Whether the request may have reached the endpoint. One without a connection did not, and is no paid call."""
    is_paid: bool = False
    """Whether the endpoint may charge for it: it answered with content, or broke off after the request was sent."""


def read_fault(
    status: int,
    text: str,
    headers: Mapping[str, str],
    sent: Mapping[str, Any],
    now: datetime | None = None,
) -> Fault:
    """Classify an error response. `sent` is the request's body."""
    fault = _read_fault(status, text, headers, sent, now)
    return replace(fault, is_paid=True) if status in _GATEWAY_GAVE_UP else fault


def _read_fault(
    status: int,
    text: str,
    headers: Mapping[str, str],
    sent: Mapping[str, Any],
    now: datetime | None,
) -> Fault:
    said = f"HTTP {status}: {shortened(error_message(text))}"
    text = text.replace('\\"', '"')  # quotes of a message within JSON
    if "tools" in sent and status in (400, 404, 422, 500, 501) and _NO_TOOLS.search(text):
        return Fault("no_tools", said, status)
    if status < 300:
        status = 400 if find_words("context_length", text) or find_words("refused", text) else 500
    if status == 500 and _wants_merged(text, sent):  # llama.cpp answers an error of a template so
        return Fault("merged_messages", said, status)
    if status in (408, 409, 425, 429) or status >= 500:
        if _NO_CREDIT.search(text):
            return Fault(
                "permanent",
                said,
                status,
                remedy="The account has no credit left: add some, or use another key",
            )
        kind = "transient" if status in (409, 425) else "overload"
        return Fault(kind, said, status, retry_after_s(headers, now))
    if status in (400, 413, 422):
        return _refused(status, text, said, sent)
    if status in (403, 451) and find_words("refused", text):
        return Fault("content_filter", said, status)
    return Fault(
        "permanent", said, status, remedy=_REMEDIES.get(status, "See the endpoint's message")
    )


def _refused(status: int, text: str, said: str, sent: Mapping[str, Any]) -> Fault:
    if "max_tokens" in sent and "max_completion_tokens" in text and "context length" not in text:
        return Fault("token_limit_name", said, status)
    if "response_format" in sent and _NO_SCHEMA.search(text):
        return Fault("answer_schema", said, status)
    if find_words("context_length", text) or status == 413:
        size = _CONTEXT_SIZE.search(text)
        asked = sent.get("max_tokens", sent.get("max_completion_tokens"))
        if size and asked and asked >= int(size.group(1)):
            return Fault(
                "permanent",
                said,
                status,
                remedy=f"max_tokens={asked} alone fills the model's context: lower it",
            )
        return Fault("context_length", said, status)
    if find_words("refused", text):
        return Fault("content_filter", said, status)
    parameter = refused_parameter(text)
    if parameter in sent and parameter in DROPPABLE:
        return Fault("parameter", said, status, parameter=parameter)
    if _wants_merged(text, sent):
        return Fault("merged_messages", said, status)
    if _NO_SUCH_MODEL.search(text):
        return Fault("permanent", said, status, remedy=_REMEDIES[404])
    return Fault("permanent", said, status, remedy=_request_remedy(parameter, sent))


def _wants_merged(text: str, sent: Mapping[str, Any]) -> bool:
    """Return whether a chat template refused the order or the roles of messages that the merged form changes."""
    return bool(find_words("merged_messages", text)) and not is_merged(sent.get("messages", ()))


def _request_remedy(parameter: str | None, sent: Mapping[str, Any]) -> str:
    if parameter in sent:
        return f"The endpoint does not take {parameter}: leave it out"
    return "The endpoint does not take such a request: see its message, change the sampling"


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
            body = next(
                (body[name] for name in ("error", "message", "detail") if body.get(name)), body
            )
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


def without_answer(error: BaseException, limit_s: float, shown: Callable[[str], str]) -> Fault:
    """The fault of a request that got no whole response: too slow, no connection, a certificate that nobody vouches for.

    Args:
        limit_s: seconds that the request had.
        shown: makes an error's text fit to be read, without our key.
    """
    import aiohttp

    is_sent = not isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError))
    causes = [error]  # innermost last
    while (inner := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(inner)
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return Fault(
            "overload", f"no answer in time (limit {limit_s:g} s)", is_sent=is_sent, is_paid=is_sent
        )
    untrusted = next(
        (cause for cause in reversed(causes) if isinstance(cause, SSLCertVerificationError)), None
    )
    if untrusted is not None:
        return Fault(
            "permanent",
            f"its certificate is not trusted ({shown(str(untrusted))})",
            remedy="Name a PEM file of its authority by --ca-file (`ca_file` in a configuration file) or SSL_CERT_FILE",
            is_sent=False,
        )
    said = f"{type(causes[-1]).__name__}: {causes[-1]}".removesuffix(": ")
    return Fault(
        "transient",
        f"no connection, or one that broke off ({shown(said)})",
        is_sent=is_sent,
        is_paid=is_sent,
    )
