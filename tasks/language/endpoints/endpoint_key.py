"""Finds a model's address and key. A key is read where it is used and goes nowhere else."""

import os
from collections.abc import Mapping

from schemas.errors import ConfigError
from schemas.run import ModelEndpoint

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"


def endpoint_url(endpoint: ModelEndpoint) -> str:
    """Base URL without a slash at its end; OpenAI's own where the endpoint names none."""
    return (endpoint.base_url or OPENAI_URL).rstrip("/")


def key_variable(endpoint: ModelEndpoint) -> str | None:
    """Name of the variable that holds the endpoint's key; OpenAI's own is read for no other endpoint unless it is named."""
    if endpoint.key_env:
        return endpoint.key_env
    return OPENAI_KEY_VARIABLE if endpoint_url(endpoint) == OPENAI_URL else None


def resolve_key(endpoint: ModelEndpoint, environ: Mapping[str, str] | None = None) -> str | None:
    """The key, from the variable that `key_env` names; None where no variable is named and the endpoint is not OpenAI's.

    Raises:
        ConfigError: the variable is unset, empty, or no header can carry its value; names the variable, never its value.
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
            f"the environment variable {variable} holds characters that no key has (spaces, line ends, non-ASCII)"
        )
    return key
