"""Additional fields of a request's body, such as `reasoning_effort`: names, values and form.

The module also merges messages for chat templates with strict rules. The merged form has no system
role, and no two messages of one role in a row.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from schemas.content_id import canonical_json
from schemas.errors import ConfigError
from schemas.outside.display import is_plain_name, plain_line
from schemas.outside.secret_names import looks_secret, secret_in

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
                " and"
                " request fields are stored with the run. Put the value into a variable and send it"
                " with --header NAME=ENV_VARIABLE or --key-env"
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
