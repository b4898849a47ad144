"""Fields of a request's body that Parley does not set itself, such as `reasoning_effort`: their names, values and form."""

import json
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from schemas.content_id import canonical_json
from schemas.errors import ConfigError
from schemas.outside.display import is_plain_name, plain_line
from schemas.outside.secret_names import looks_secret, secret_in

RequestFields = tuple[tuple[str, str], ...]
"""(name, canonical JSON), sorted by name: the form that ids hold."""
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
        "max_completion_tokens": "use --max-tokens (`max_tokens` in a file); Parley finds the endpoint's name of it",
        "stop": "use --stop (`stop` in a file)",
        "n": "use --samples (`samples` in a file)",
        "tools": "an agent has its own tools: --agent NAME",
        "response_format": "judges and simulators have their own schemas",
        "stream": f"leave it out: {_WHOLE}",
        "stream_options": f"leave it out: {_WHOLE}",
    }
)
"""Field that Parley sets -> the remedy of who wants another value."""
_NO_SECRETS = frozenset({"prompt_cache_key"})
"""Fields whose names look like those of keys and are none."""


def check_request_fields(fields: Mapping[str, Any]) -> RequestFields:
    """Return the fields in the form that ids hold.

    Raises:
        ConfigError: a name that Parley sets itself, or that is none; a value without JSON form, or one that looks like a key.
    """
    found: dict[str, str] = {}
    for name, value in fields.items():
        if not name or not is_plain_name(name) or any(mark in name for mark in " =\"'"):
            raise ConfigError(
                f"request field {plain_line(name, 40)!r} is not the name of a field; write NAME=JSON"
            )
        if name in SET_BY_PARLEY:
            raise ConfigError(f"request field {name!r} is set by Parley: {SET_BY_PARLEY[name]}")
        try:
            text = canonical_json(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"request field {name!r}: {plain_line(str(error))}. Give a value that JSON has"
            ) from None
        secret = name if looks_secret(name) and name not in _NO_SECRETS else secret_in(text)
        if secret is not None:
            raise ConfigError(
                f"request field {name!r}: {plain_line(secret, 40)!r} looks like the name of a key, and request fields are kept"
                " with the run. Put the value into a variable and send it by --header NAME=ENV_VARIABLE, or by --key-env"
            )
        found[name] = text
    return tuple(sorted(found.items()))


@lru_cache(maxsize=64)
def fields_to_send(fields: RequestFields) -> Mapping[str, Any]:
    """Return the fields with their values, as a body takes them. Do not change the values: all requests share them."""
    return MappingProxyType({name: json.loads(text) for name, text in fields})
