"""Chat-completions format: request bodies and answers of OpenAI, vLLM, llama.cpp and gateways.

Bodies are plain dictionaries on purpose: the SDK's typed requests and answers cost more CPU than
everything else in a turn together.
"""

import json
import re
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

import orjson

from schemas.run import EndpointProfile
from tasks.language.chat_model import ChatRequest, Message
from tasks.language.endpoints.faults import Fault
from tasks.language.endpoints.request_parts import fields_to_send, merged

_NATIVE = EndpointProfile()


def json_bytes(body: Mapping[str, Any]) -> bytes:
    """Return a body as JSON.

    Encoding is most of a long request's cost, and orjson takes a tenth of the time.
    """
    try:
        return orjson.dumps(body)
    except TypeError:  # A lone surrogate, which UTF-8 cannot encode, or an integer beyond 64 bits.
        return json.dumps(body).encode()


def request_body(
    model: str, request: ChatRequest, profile: EndpointProfile = _NATIVE
) -> dict[str, Any]:
    """Return the body of POST /chat/completions, in the form of the endpoint's profile.

    A greedy request has no `top_p`, and a `top_p` of 1.0 is not sent with the endpoint's own
    temperature: it would change nothing, and many endpoints reject it.
    """
    sampling = request.sampling
    messages = [_message(m) for m in request.messages]
    body: dict[str, Any] = {
        "model": model,
        "messages": merged(messages) if profile.messages == "merged" else messages,
    }
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p != 1 or sampling.temperature:
        body["top_p"] = sampling.top_p
    body["seed"] = request.seed
    if sampling.max_tokens is not None:
        body[profile.token_limit_name] = sampling.max_tokens
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    for name in profile.refused:
        body.pop(name, None)
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": t.name,
                    "description": t.description,
                    "parameters": t.parameters,
                },
            }
            for t in request.tools
        ]
    if request.answer_schema is not None and profile.takes_schema:
        schema = {"name": "answer", "schema": request.answer_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    body.update(fields_to_send(sampling.request))
    return body


def _message(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.calls:
        body["tool_calls"] = [
            {
                "id": c.call_id,
                "type": "function",
                "function": {"name": c.name, "arguments": object_text(c.arguments)},
            }
            for c in message.calls
        ]
    if message.call_id is not None:
        body["tool_call_id"] = message.call_id
    return body


def object_text(arguments: str) -> str:
    """Return a call's arguments as the text of a JSON object, as endpoints require in a history.

    vLLM and llama.cpp reject the whole conversation if the arguments of an earlier call are not
    JSON.
    """
    try:
        if isinstance(orjson.loads(arguments), dict):
            return arguments
    except ValueError:
        pass  # The json module accepts more, such as line breaks within strings.
    try:
        value: Any = json.loads(arguments or "{}", strict=False)
    except (ValueError, RecursionError):
        value = None
    return json.dumps(
        value if isinstance(value, dict) else {"unreadable": arguments}, ensure_ascii=False
    )


def valid_unicode(text: str) -> str:
    """Return the text with lone surrogates replaced.

    JSON can contain them, UTF-8 (requests, Parquet) cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_DATE_OR_TAG = re.compile(r"(?:[-_:@/ ]|$)")


def is_plausible_name(requested: str, served: str) -> bool:
    """Return True if the model that answered may be the requested one.

    The name may be equal, dated or tagged, or the last part of the path.
    """
    wanted_name, answering = requested.lower().strip("/"), served.lower().strip("/")
    names = {wanted_name, wanted_name.rsplit("/", 1)[-1]}
    names |= {name.rsplit(":", 1)[0] for name in names} | {
        name.removesuffix("-latest") for name in names
    }
    return any(
        other.startswith(name) and _DATE_OR_TAG.match(other, len(name))
        for name in names
        for other in (answering, answering.rsplit("/", 1)[-1])
        if name
    )


T = TypeVar("T")


class RequestObserver(Protocol):
    """Observer that is told of each request of one caller, on the caller's event loop."""

    def sent(self) -> None:
        """Record that a request is in flight."""
        ...

    def ended(self, fault: str) -> None:
        """Record that a request has ended.

        Args:
            fault: Kind of its fault. Empty for an answer.
        """
        ...


_observer: ContextVar[RequestObserver | None] = ContextVar("parley_request_observer", default=None)
"""Observer of one call of a model.

The roles of a run share a model, so an argument would have to pass every model's `complete`.
"""


@contextmanager
def observed_by(observer: RequestObserver) -> Iterator[None]:
    """Report all requests that this task sends within the block to the observer."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


async def observed(request: Awaitable[T | Fault]) -> T | Fault:
    """Send a request and return its result. Report it to the task's observer, if there is one."""
    observer = _observer.get()
    if observer is None:
        return await request
    observer.sent()
    fault = ""
    try:
        outcome = await request
        fault = outcome.kind if isinstance(outcome, Fault) else ""
    finally:
        observer.ended(fault)
    return outcome
