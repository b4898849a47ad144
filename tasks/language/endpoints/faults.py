"""Faults of endpoints: rejections and errors, classified by the reaction that can help."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.resources import files
from ssl import SSLCertVerificationError
from typing import Any, Literal

from schemas.outside.display import plain_line
from tasks.language.endpoints.request_parts import is_merged

WORDS_FILE = "vendor_words.yaml"


@cache
def vendor_words() -> Mapping[str, Mapping[str, tuple[re.Pattern[str], ...]]]:
    """Return the patterns by kind of rejection and vendor.

    The file is read at the first rejection.
    """
    import yaml

    text = files("tasks.language.endpoints").joinpath(WORDS_FILE).read_text(encoding="utf-8")
    kinds: dict[str, dict[str, list[str]]] = yaml.safe_load(text)
    return {
        kind: {
            vendor: tuple(re.compile(pattern, re.IGNORECASE | re.DOTALL) for pattern in patterns)
            for vendor, patterns in by.items()
        }
        for kind, by in kinds.items()
    }


def find_words(kind: str, text: str) -> re.Match[str] | None:
    """Return the first match of any vendor's patterns for a kind of rejection in a message."""
    patterns = (pattern for of_vendor in vendor_words()[kind].values() for pattern in of_vendor)
    return next((match for pattern in patterns if (match := pattern.search(text))), None)


def refused_parameter(text: str) -> str | None:
    """Return the parameter that a rejection names, or None."""
    for kind in ("exclusive_parameters", "unsupported_parameter"):
        for of_vendor in vendor_words()[kind].values():
            for pattern in of_vendor:
                if match := pattern.search(text):
                    return match.group("name").rpartition(".")[2]
    return None


_GATEWAY_GAVE_UP = (504, 524)
"""Statuses of a gateway that stopped waiting for a working model."""
DROPPABLE = ("temperature", "top_p", "seed", "stop")
"""Parameters that Parley sends by default, and omits if an endpoint rejects them."""
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
    r"\btools?\b.{0,80}(?:not (?:supported|enabled|available|permitted)|unsupported|unrecognized"
    r"|unexpected|requires)"
    r"|(?:not support|unsupported|unrecognized|unknown|extra|supports?) .{0,60}"
    r"\b(?:tools?|tool[_ ](?:use|calls?|choice))\b",
    re.IGNORECASE | re.DOTALL,
)
_NO_SCHEMA = re.compile(r"response_format|json_schema|guided|grammar|schema", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fault:
    """Reason why a request got no answer. Its kind says whether and how to retry.

    - `overload`: retry later, with fewer requests in flight.
    - `transient`: retry later.
    - `token_limit_name`: retry immediately, with the other name of max_tokens.
    - `answer_schema`: retry immediately, without the answer's schema.
    - `no_tools`: retry immediately, with the tools described as text.
    - `parameter`: retry immediately, without the request field named in `parameter`.
    - `merged_messages`: retry immediately, with the messages in the merged form.
    - `reasoning_wanted`: retry immediately, with the assistant's earlier thoughts.
    - `permanent`: do not retry.
    - `context_length`, `content_filter`: do not retry. The endpoint rejected the conversation,
      which counts as an answer.
    """

    kind: Literal[
        "overload",
        "transient",
        "token_limit_name",
        "answer_schema",
        "no_tools",
        "parameter",
        "merged_messages",
        "reasoning_wanted",
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
    """True if the request may have reached the endpoint.

    A request without a connection is not paid.
    """
    is_paid: bool = False
    """True if the endpoint may charge: it sent content, or broke off after receiving the request.
    """


def read_fault(
    status: int,
    text: str,
    headers: Mapping[str, str],
    sent: Mapping[str, Any],
) -> Fault:
    """Classify an error response. `sent` is the request's body."""
    fault = _read_fault(status, text, headers, sent)
    return replace(fault, is_paid=True) if status in _GATEWAY_GAVE_UP else fault


def _read_fault(
    status: int,
    text: str,
    headers: Mapping[str, str],
    sent: Mapping[str, Any],
) -> Fault:
    message = f"HTTP {status}: {shortened(error_message(text))}"
    text = text.replace('\\"', '"')  # quotes of a message within JSON
    if "tools" in sent and status in (400, 404, 422, 500, 501) and _NO_TOOLS.search(text):
        return Fault("no_tools", message, status)
    if status < 300:
        status = 400 if find_words("context_length", text) or find_words("refused", text) else 500
    # llama.cpp reports an error of a template this way
    if status == 500 and _wants_merged(text, sent):
        return Fault("merged_messages", message, status)
    if status in (408, 409, 425, 429) or status >= 500:
        if _NO_CREDIT.search(text):
            return Fault(
                "permanent",
                message,
                status,
                remedy="The account has no credit left. Add credit, or use another key",
            )
        kind = "transient" if status in (409, 425) else "overload"
        return Fault(kind, message, status, retry_after_s(headers))
    if status in (400, 413, 422):
        return _bad_request_fault(status, text, message, sent)
    if status in (403, 451) and find_words("refused", text):
        return Fault("content_filter", message, status)
    return Fault(
        "permanent", message, status, remedy=_REMEDIES.get(status, "See the endpoint's message")
    )


def _bad_request_fault(status: int, text: str, message: str, sent: Mapping[str, Any]) -> Fault:
    if "max_tokens" in sent and "max_completion_tokens" in text and "context length" not in text:
        return Fault("token_limit_name", message, status)
    if "response_format" in sent and _NO_SCHEMA.search(text):
        return Fault("answer_schema", message, status)
    if find_words("context_length", text) or status == 413:
        size = _CONTEXT_SIZE.search(text)
        max_tokens = sent.get("max_tokens", sent.get("max_completion_tokens"))
        if size and max_tokens and max_tokens >= int(size.group(1)):
            return Fault(
                "permanent",
                message,
                status,
                remedy=f"max_tokens={max_tokens} alone fills the model's context. Lower it",
            )
        return Fault("context_length", message, status)
    if find_words("refused", text):
        return Fault("content_filter", message, status)
    if _wants_reasoning(text, sent):
        return Fault("reasoning_wanted", message, status)
    parameter = refused_parameter(text)
    if parameter in sent and parameter in DROPPABLE:
        return Fault("parameter", message, status, parameter=parameter)
    if _wants_merged(text, sent):
        return Fault("merged_messages", message, status)
    if _NO_SUCH_MODEL.search(text):
        return Fault("permanent", message, status, remedy=_REMEDIES[404])
    return Fault("permanent", message, status, remedy=_request_remedy(parameter, sent))


def _wants_merged(text: str, sent: Mapping[str, Any]) -> bool:
    """Return True if a chat template rejected roles or an order that the merged form changes."""
    return bool(find_words("merged_messages", text)) and not is_merged(sent.get("messages", ()))


def _wants_reasoning(text: str, sent: Mapping[str, Any]) -> bool:
    """Return True if a request with tools was rejected since it lacks the assistant's thoughts."""
    return (
        "tools" in sent
        and not any({"reasoning", "reasoning_content"} & {*m} for m in sent.get("messages", ()))
        and bool(find_words("reasoning_wanted", text))
    )


def _request_remedy(parameter: str | None, sent: Mapping[str, Any]) -> str:
    if parameter in sent:
        return f"The endpoint does not accept {parameter}. Remove it"
    return "The endpoint rejects this request. See its message, and change the sampling"


_REMEDIES = {
    401: "The key was rejected",
    402: "The account has no credit left. Add credit, or use another key",
    403: "The key may not use this model",
    404: "Check the model's name, and that the base URL ends before /chat/completions"
    " (usually with /v1)",
    405: "Check that the base URL ends before /chat/completions (usually with /v1)",
}


def is_no_such_model(text: str) -> bool:
    """Return True if an error says that the endpoint does not serve the model."""
    return bool(_NO_SUCH_MODEL.search(text))


def error_message(text: str) -> str:
    """Return the message in an error body, however it is wrapped, or else the body's text."""
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
    """Return a text as one line of at most 300 characters, without terminal control characters."""
    return plain_line(" ".join(text.split()), _TEXT_LIMIT)


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds that the endpoint asks to wait, or None.

    It uses `Retry-After` as seconds or HTTP date, or `retry-after-ms`.
    """
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


def limit_wait(fault: Fault, left_s: float) -> Fault:
    """Return the fault, with an endless wait if the endpoint asks to wait longer than `left_s`."""
    if not fault.retry_after_s or fault.retry_after_s <= left_s:
        return fault
    return replace(
        fault,
        text=f"{fault.text}. It asks to wait {fault.retry_after_s:.0f} s, more than the"
        f" {max(0.0, left_s):.0f} s left for the request",
        retry_after_s=math.inf,
        remedy="Run again after that time",
    )


def without_answer(error: BaseException, limit_s: float, shown: Callable[[str], str]) -> Fault:
    """Return the fault of a request without a complete response.

    Causes are a time limit, a missing connection, and an untrusted certificate.

    Args:
        error: The exception.
        limit_s: Time limit of the request in seconds.
        shown: Returns an error's text in a form for logs, without Parley's key.
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
            remedy="Name a PEM file of its authority with --ca-file (`ca_file` in a configuration"
            " file) or SSL_CERT_FILE",
            is_sent=False,
        )
    cause_text = f"{type(causes[-1]).__name__}: {causes[-1]}".removesuffix(": ")
    return Fault(
        "transient",
        f"no connection, or it broke off ({shown(cause_text)})",
        is_sent=is_sent,
        is_paid=is_sent,
    )
