"""Chat-completions format: request bodies and answers of OpenAI, vLLM, llama.cpp and gateways.

Bodies are plain dictionaries on purpose: the SDK's typed requests and answers cost more CPU than
everything else in a turn together.

An endpoint's profile determines the form of its bodies. Profiles have names, and a rejection adapts
them.
"""

import json
import re
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol, TypeVar

import orjson
from pydantic import ValidationError

from schemas.content_id import content_id
from schemas.dialog import Role
from schemas.episode import ToolCall
from schemas.errors import ConfigError, UnknownName
from schemas.outside.display import plain_line
from schemas.run import EndpointProfile
from tasks.language.chat_model import ChatRequest, Message
from tasks.language.endpoints.answer_text import tag_names
from tasks.language.endpoints.faults import Fault
from tasks.language.endpoints.request_parts import fields_to_send, merged

_NATIVE = EndpointProfile()
SIGNATURE = "#thought_signature="
"""Mark between a call's id and Google's signature of the thoughts before the call.

Gemini refuses a history of calls without it. It is opaque, so that a step stores it with the id.
"""


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
    thoughts = profile.reasoning_fields[0] if profile.returns_reasoning and request.tools else ""
    messages = [_message(m, thoughts) for m in request.messages]
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


def _message(message: Message, thoughts: str) -> dict[str, Any]:
    body: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if thoughts and message.role is Role.ASSISTANT:
        body[thoughts] = message.reasoning
    if message.calls:
        body["tool_calls"] = [_call(call) for call in message.calls]
    if message.call_id is not None:
        body["tool_call_id"] = message.call_id.partition(SIGNATURE)[0]
    return body


def _call(call: ToolCall) -> dict[str, Any]:
    call_id, _, signature = call.call_id.partition(SIGNATURE)
    body = {
        "id": call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": object_text(call.arguments)},
    }
    extra = {"extra_content": {"google": {"thought_signature": signature}}} if signature else {}
    return body | extra


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


FOLDER = "profiles"
"""Folder of profiles in this package and in the home: `<home>/profiles/NAME.yaml` adds NAME."""
_SUFFIXES = (".yaml", ".yml")
_FOUND_OUT = "thoughts"
"""Profile field that no file may set, because only an endpoint's answers determine it."""


def profile_names(home: Path) -> Mapping[str, str]:
    """Return the text of each known profile by name. A profile in the home overrides Parley's."""
    own = {
        Path(entry.name).stem: entry
        for entry in files("tasks.language.endpoints").joinpath(FOLDER).iterdir()
    }
    added = {path.stem: path for path in sorted((home / FOLDER).glob("*.yaml"))}
    return {name: entry.read_text(encoding="utf-8") for name, entry in {**own, **added}.items()}


def load_profile(choice: str, home: Path) -> tuple[EndpointProfile, str]:
    """Return the profile, and its name plus digest of its content, which stand in ids.

    Args:
        choice: Name, or path of a YAML file.
        home: Parley's data folder.

    Raises:
        UnknownName: No profile has this name.
        ConfigError: The file cannot be read or does not contain a profile.
    """
    if choice.endswith(_SUFFIXES) or "/" in choice:
        path = Path(choice).expanduser()
        try:
            name, text = path.stem, path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"profile {plain_line(choice)!r}: the file cannot be read ({error})"
            ) from None
    else:
        profiles = profile_names(home)
        if choice not in profiles:
            remedy = f"To use your own, pass --profile PATH.yaml or add {home / FOLDER}/NAME.yaml"
            raise UnknownName("profile", choice, sorted(profiles), remedy)
        name, text = choice, profiles[choice]
    profile = read_profile(text, choice)
    # A field that comes later moves no id.
    stated = profile.model_dump(mode="json", exclude_defaults=True)
    return profile, f"{name} {content_id(stated)[:12]}"


def read_profile(text: str, place: str) -> EndpointProfile:
    """Read the YAML text of a profile.

    Raises:
        ConfigError: The text is invalid. The message names the fault and the known fields.
    """
    import yaml

    fields = sorted(EndpointProfile.model_fields.keys() - {_FOUND_OUT})
    try:
        fields_given = yaml.safe_load(text)
        if not isinstance(fields_given, dict) or _FOUND_OUT in fields_given:
            raise ValueError("the file is not a mapping of profile fields")
        profile = EndpointProfile.model_validate(fields_given)
        tag_names(profile.reasoning_tags)
    except ValidationError as error:
        first = error.errors()[0]
        message = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (ValueError, yaml.YAMLError, UnknownName) as error:
        message = " ".join(str(error).split())
    else:
        return profile.model_copy(update={"refused": tuple(sorted(set(profile.refused)))})
    raise ConfigError(
        f"profile {plain_line(place)!r}: {plain_line(message)}. Its fields: {', '.join(fields)}"
    )


def adapt(profile: EndpointProfile, fault: Fault) -> EndpointProfile | None:
    """Return the profile that a rejection suggests, or None if no other form can help."""
    match fault.kind:
        case "token_limit_name":
            return profile.model_copy(update={"token_limit_name": "max_completion_tokens"})
        case "answer_schema":
            return profile.model_copy(update={"takes_schema": False})
        case "no_tools":
            return profile.model_copy(update={"takes_tools": False})
        case "parameter":
            return profile.without(fault.parameter)
        case "reasoning_wanted":
            return profile.model_copy(update={"returns_reasoning": True})
        case "merged_messages" if profile.messages != "native":
            return profile.model_copy(update={"messages": "merged"})
        case _:
            return None
