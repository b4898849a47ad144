"""Parts of a request that the caller decides: its address, key, headers and additional fields.

Headers may be added to requests by `--header NAME=ENV_VARIABLE`. Their values come from the
environment, and no file, id, log or record contains the values.

The module also merges messages for chat templates with strict rules. The merged form has no system
role, and no two messages of one role in a row.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from schemas.content_id import canonical_json
from schemas.errors import ConfigError
from schemas.outside.display import is_plain_name, plain_line
from schemas.outside.secret_names import looks_secret, secret_in
from schemas.run import ModelEndpoint

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"


def endpoint_url(endpoint: ModelEndpoint) -> str:
    """Return the base URL without a trailing slash. The default is OpenAI's."""
    return (endpoint.base_url or OPENAI_URL).rstrip("/")


def key_variable(endpoint: ModelEndpoint) -> str | None:
    """Return the name of the variable with the endpoint's key.

    OpenAI's variable is used for no other endpoint unless it is named.
    """
    if endpoint.key_env:
        return endpoint.key_env
    return OPENAI_KEY_VARIABLE if endpoint_url(endpoint) == OPENAI_URL else None


def resolve_key(endpoint: ModelEndpoint, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the key from the variable that `key_env` names, or None if no variable applies.

    Raises:
        ConfigError: The variable is unset or empty, or no header can contain its value. The message
            names the variable, never its value.
    """
    variable = key_variable(endpoint)
    if variable is None:
        return None
    key = (os.environ if environ is None else environ).get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"no key for {endpoint_url(endpoint)}: the environment variable {variable} is not set."
            " Set it, or name another with --key-env (`key_env` in a configuration file)"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"the environment variable {variable} contains characters that are invalid in a key"
            " (spaces, line ends, non-ASCII)"
        )
    return key


HUB_VARIABLE = "HF_ENDPOINT"
"""Variable that names another hub than the public one, as for huggingface_hub."""
KEY_VARIABLE = "HF_TOKEN"
_HUB = "https://huggingface.co"


def hub_address(environ: Mapping[str, str]) -> str:
    """Return the hub's URL without a trailing slash."""
    return environ.get(HUB_VARIABLE, "").rstrip("/") or _HUB


def hub_headers(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request to the hub, with the key from `HF_TOKEN` if it is set.

    Raises:
        ConfigError: No header can contain the key.
    """
    if not environ.get(KEY_VARIABLE, "").strip():
        return {}
    endpoint = ModelEndpoint(base_url=hub_address(environ), key_env=KEY_VARIABLE)
    return {"Authorization": f"Bearer {resolve_key(endpoint, environ)}"}


_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-encoding", "content-length"),
        *("content-type", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers that Parley or its connections set themselves."""
_SHORTEST_SECRET = 8
"""Minimum length of a secret.

Hiding a shorter value, such as `eu` or `true`, would change words of answers.
"""


def check_headers(headers: Mapping[str, str]) -> None:
    """Reject invalid headers and values that are not names of variables.

    Raises:
        ConfigError: The message names the header, but never the value, which may be the secret.
    """
    names: dict[str, str] = {}
    for name, variable in headers.items():
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"header {plain_line(name, 40)!r} is not a valid header name; write"
                " NAME=ENV_VARIABLE"
            )
        if name.lower() in _OWN_HEADERS:
            raise ConfigError(f"header {name!r} is set by Parley or by its connections; remove it")
        if (twin := names.setdefault(name.lower(), name)) != name:
            raise ConfigError(
                f"headers {twin!r} and {name!r} are equal, since case does not count; remove one"
            )
        if not (variable.isascii() and variable.isidentifier()):
            raise ConfigError(
                f"header {name!r}: its value must be the name of an environment variable (it is not"
                " shown, since it may be the secret itself). Store the secret in a variable and"
                " write NAME=ENV_VARIABLE"
            )


def resolve_headers(
    endpoint: ModelEndpoint, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the value of each header, read from the environment.

    Raises:
        ConfigError: A variable is unset or empty, or no header can contain its value. The message
            names the variable, never its value.
    """
    values = os.environ if environ is None else environ
    resolved: dict[str, str] = {}
    for name, variable in endpoint.headers:
        value = values.get(variable, "").strip()
        if not value:
            raise ConfigError(
                f"no value for the header {name!r}: the environment variable {variable} is not set."
                f" Set it, or name another with --header {name}=ENV_VARIABLE (`headers` in a"
                " configuration file)"
            )
        if not (value.isascii() and value.isprintable()):
            raise ConfigError(
                f"the environment variable {variable} (header {name!r}) contains characters that"
                " are invalid in a header"
            )
        resolved[name] = value
    return resolved


def secret_variables(endpoint: ModelEndpoint) -> tuple[str, ...]:
    """Return the names of the variables that an endpoint's requests need for key and headers."""
    key = key_variable(endpoint)
    return (*((key,) if key else ()), *(variable for _, variable in endpoint.headers))


def secrets_of(key: str | None, headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the texts that no log or record may contain, longest first.

    These are the key, the headers' values, and a value's last word, since an endpoint may repeat
    only the key of `Bearer KEY`.
    """
    values = {
        word
        for value in headers.values()
        for word in (value, value.split()[-1])
        if len(word) >= _SHORTEST_SECRET
    }
    return tuple(sorted(values | ({key} if key else set()), key=lambda text: (-len(text), text)))


def without(text: str, secrets: tuple[str, ...]) -> str:
    """Return the text without the secrets, in case an endpoint sends one back."""
    for secret in secrets:
        text = text.replace(secret, "[key]")
    return text


RequestFields = tuple[tuple[str, str], ...]
"""(name, canonical JSON) pairs sorted by name, in the form of ids."""
_WHOLE = "Parley reads whole answers"
SET_BY_PARLEY: Mapping[str, str] = MappingProxyType(
    {
        "model": "name the model in its spec: openai:MODEL@BASE_URL",
        "messages": "the benchmark writes them; --system-prompt FILE adds a text of yours",
        "input": "the texts to embed are the benchmark's",
        "encoding_format": "Parley reads every format of vectors",
        "temperature": "use --temperature (`temperature` in a file)",
        "top_p": "use --top-p (`top_p` in a file)",
        "seed": "use --seed (`seed` in a file)",
        "max_tokens": "use --max-tokens (`max_tokens` in a file)",
        "max_completion_tokens": "use --max-tokens (`max_tokens` in a file); Parley finds the"
        " endpoint's name for it",
        "stop": "use --stop (`stop` in a file)",
        "n": "use --samples (`samples` in a file)",
        "tools": "an agent has its own tools: --agent NAME",
        "response_format": "judges and simulators have their own schemas",
        "stream": f"remove it: {_WHOLE}",
        "stream_options": f"remove it: {_WHOLE}",
    }
)
"""Remedy for each field that Parley sets itself."""
_NO_SECRETS = frozenset({"prompt_cache_key"})
"""Fields that hold no secret although their names look like names of keys."""


def check_request_fields(fields: Mapping[str, Any]) -> RequestFields:
    """Return the fields in the form of ids.

    Raises:
        ConfigError: Parley sets the field itself, the name is invalid, or the value has no JSON
            form or looks like a key.
    """
    checked: dict[str, str] = {}
    for name, value in fields.items():
        if not name or not is_plain_name(name) or any(mark in name for mark in " =\"'"):
            raise ConfigError(
                f"request field {plain_line(name, 40)!r} is not a valid field name; write NAME=JSON"
            )
        if name in SET_BY_PARLEY:
            raise ConfigError(f"request field {name!r} is set by Parley: {SET_BY_PARLEY[name]}")
        try:
            text = canonical_json(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"request field {name!r}: {plain_line(str(error))}. Use a JSON value"
            ) from None
        secret = name if looks_secret(name) and name not in _NO_SECRETS else secret_in(text)
        if secret is not None:
            raise ConfigError(
                f"request field {name!r}: {plain_line(secret, 40)!r} looks like the name of a key,"
                " and request fields are stored with the run. Put the value into a variable and"
                " send it with --header NAME=ENV_VARIABLE or --key-env"
            )
        checked[name] = text
    return tuple(sorted(checked.items()))


@lru_cache(maxsize=64)
def fields_to_send(fields: RequestFields) -> Mapping[str, Any]:
    """Return the fields with parsed values for a body.

    All requests share the values, so do not change them.
    """
    return MappingProxyType({name: json.loads(text) for name, text in fields})


_MADE_USER = ("system", "developer")
_JOINED = "\n\n"


def merged(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Join system texts to the following user message, and consecutive messages of one role.

    An empty answer of the model is omitted, so that the messages around it are joined. Tool calls
    and their results stay unchanged, since each result names its call.
    """
    joined: list[dict[str, Any]] = []
    for message in messages:
        role = "user" if message["role"] in _MADE_USER else message["role"]
        if role == "assistant" and not message["content"].strip() and not message.get("tool_calls"):
            continue
        last = joined[-1] if joined else None
        if (
            last is not None
            and last["role"] == role
            and role != "tool"
            and not {*last, *message} & {"tool_calls"}
        ):
            last["content"] = _JOINED.join(
                text for text in (last["content"], message["content"]) if text
            )
        else:
            joined.append({**message, "role": role})
    return joined


def is_merged(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if the messages are in the merged form already."""
    return merged(messages) == list(messages)
