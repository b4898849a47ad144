"""Address and key of an endpoint. The key is read only where it is used."""

import os
from collections.abc import Mapping

from schemas.errors import ConfigError
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
