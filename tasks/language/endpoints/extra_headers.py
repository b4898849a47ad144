"""Headers that a user adds to requests. Their values come from the environment; no file, id, log or record holds one."""

import os
import re
from collections.abc import Mapping

from schemas.errors import ConfigError
from schemas.outside.display import plain_line
from schemas.run import ModelEndpoint
from tasks.language.endpoints.endpoint_key import key_variable

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SET_BY_PARLEY = frozenset(
    {
        *(
            "accept",
            "accept-encoding",
            "connection",
            "content-encoding",
            "content-length",
            "content-type",
            "expect",
        ),
        *("host", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
_SHORTEST_SECRET = 8
"""A shorter value, such as `eu` or `true`, is no secret: to replace it would change words of answers."""


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse what is no header, or not the name of a variable.

    Raises:
        ConfigError: names the header, and never the value: it may be the secret itself.
    """
    known: dict[str, str] = {}
    for name, variable in headers.items():
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"header {plain_line(name, 40)!r} is not the name of a header; write NAME=ENV_VARIABLE"
            )
        if name.lower() in _SET_BY_PARLEY:
            raise ConfigError(
                f"header {name!r} is set by Parley, or by its connections: leave it out"
            )
        if (twin := known.setdefault(name.lower(), name)) != name:
            raise ConfigError(
                f"headers {twin!r} and {name!r} are one, since case does not count: leave one of them out"
            )
        if not (variable.isascii() and variable.isidentifier()):
            raise ConfigError(
                f"header {name!r}: its value is not the name of a variable (and is not shown, in case it is the secret itself)."
                " Put the value into a variable, and write NAME=ENV_VARIABLE"
            )


def resolve_headers(
    endpoint: ModelEndpoint, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Header -> its value, read where it is used.

    Raises:
        ConfigError: a variable is unset, empty, or no header can carry its value; names the variable, never its value.
    """
    values = os.environ if environ is None else environ
    found: dict[str, str] = {}
    for name, variable in endpoint.headers:
        value = values.get(variable, "").strip()
        if not value:
            raise ConfigError(
                f"no value for the header {name!r}: the environment variable {variable} is not set. Set it, or name another by"
                f" --header {name}=ENV_VARIABLE (`headers` in a configuration file)"
            )
        if not (value.isascii() and value.isprintable()):
            raise ConfigError(
                f"the environment variable {variable} (header {name!r}) holds characters that no header has"
            )
        found[name] = value
    return found


def secret_variables(endpoint: ModelEndpoint) -> tuple[str, ...]:
    """Return the names of the variables that an endpoint's requests need: of its key, and of its headers."""
    key = key_variable(endpoint)
    return (*((key,) if key else ()), *(variable for _, variable in endpoint.headers))


def secrets_of(key: str | None, headers: Mapping[str, str]) -> tuple[str, ...]:
    """Texts that no log and no record may hold, longest first: the key, the headers' values, and a value's last word.

    The last word counts since an endpoint may repeat the key of `Bearer KEY` alone.
    """
    values = {
        word
        for value in headers.values()
        for word in (value, value.split()[-1])
        if len(word) >= _SHORTEST_SECRET
    }
    return tuple(sorted(values | ({key} if key else set()), key=lambda text: (-len(text), text)))


def without(text: str, secrets: tuple[str, ...]) -> str:
    """Return the text without the secrets, should an endpoint send one back."""
    for secret in secrets:
        text = text.replace(secret, "[key]")
    return text
