"""Models behind an OpenAI-compatible endpoint: `openai:MODEL[@BASE_URL]`."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from schemas.errors import ConfigError
from schemas.outside.display import plain_line
from schemas.outside.secret_names import looks_secret
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.endpoints.endpoint_key import OPENAI_KEY_VARIABLE, OPENAI_URL
from tasks.language.endpoints.extra_headers import secret_variables
from tasks.language.providers.contract import (
    ModelChoice,
    ModelProvider,
    OpenSettings,
    SpecSettings,
    file_name,
)

if TYPE_CHECKING:
    from tasks.language.chat_model import ChatModel

NAME = "openai"


def read(rest: str, given: SpecSettings) -> ModelChoice:
    """Return the model of a spec; the last `@http` begins its address."""
    given.refuse_name()
    found = max(rest.rfind("@http://"), rest.rfind("@https://"))
    name, url = (rest, None) if found < 0 else (rest[:found], rest[found + 1 :])
    if not name.strip():
        raise ConfigError(
            f"model {given.text!r}: no model name before the address; write openai:MODEL@BASE_URL"
        )
    if url is None and re.search(r"@(localhost|[\w.-]+:\d+)(/|$)", name):
        raise ConfigError(
            f"model {given.text!r}: an address begins with http:// or https://; write openai:MODEL@http://HOST:PORT/v1"
        )
    if url and given.base_url and url.rstrip("/") != given.base_url.rstrip("/"):
        raise ConfigError(
            f"model {given.text!r}: base_url={given.base_url!r} says another address; leave one of"
            " them out"
        )
    address, query = _address(url or given.base_url, given.text)
    identity = ModelIdentity(provider=NAME, name=name.strip(), revision=given.unpinned)
    return ModelChoice(
        identity, ModelEndpoint(base_url=address, key_env=given.key_env, query=query)
    )


def _address(url: str | None, text: str) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """Return the base URL without its query, and the query's parameters."""
    if url is None:
        return None, ()
    try:
        parts = urlsplit(url)
        whole = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        parts, whole = urlsplit(""), False
    if parts.username or parts.password:
        raise ConfigError(
            f"model {text.split('@')[0]!r}: its address holds a user or password; put the key in a"
            " variable, name it with key_env"
        )
    if not whole or parts.fragment or re.search(r"\s", url):
        raise ConfigError(
            f"model {text!r}: {url!r} is not a base URL; write one like http://127.0.0.1:8000/v1"
        )
    query = tuple(parse_qsl(parts.query, keep_blank_values=True))
    for name, _ in query:
        if looks_secret(name.replace("-", "_")):
            raise ConfigError(
                f"model {text.split('@')[0]!r}: the query of its address holds"
                f" {plain_line(name, 40)!r}, which looks like a key."
                " Put the key into a variable, and write its name with key_env or --header"
                " NAME=ENV_VARIABLE"
            )
    return url.partition("?")[0].rstrip("/"), query


def open_endpoint(
    identity: ModelIdentity, endpoint: ModelEndpoint, settings: OpenSettings
) -> "ChatModel":
    """Open a model behind an endpoint of OpenAI's form; the replicas of an endpoint share the concurrency evenly."""
    from tasks.language.endpoints.call_policy import CallPolicy
    from tasks.language.endpoints.openai_model import OpenAIModel
    from tasks.language.endpoints.outage import OutagePolicy
    from tasks.language.endpoints.sticky_model import StickyModel
    from tasks.language.system_text import PromptedModel

    places = [
        endpoint.model_copy(update={"base_url": url, "replicas": ()}) for url in endpoint.replicas
    ] or [endpoint]
    policy = CallPolicy(
        concurrency=-(-settings.concurrency // len(places)),
        timeout_s=settings.timeout_s,
        check_served_model=settings.check_served_model,
        outage=OutagePolicy(patience_s=settings.patience_s),
    )
    if endpoint.batches is not None:
        from tasks.language.endpoints.batch_model import PATIENCE_S, BatchModel

        slow = replace(policy, patience_s=PATIENCE_S)
        model: ChatModel = BatchModel(
            identity,
            endpoint,
            Path(endpoint.batches),
            policy=slow,
            environ=settings.environ,
            on_send=settings.on_send,
        )
    else:
        models = [
            OpenAIModel(
                identity, place, policy=policy, environ=settings.environ, on_send=settings.on_send
            )
            for place in places
        ]
        model = StickyModel(models) if len(models) > 1 else models[0]
    return PromptedModel(model, endpoint.system_text) if endpoint.system_text else model


def open_served(
    identity: ModelIdentity, endpoint: ModelEndpoint, settings: OpenSettings
) -> "ChatModel":
    """Open a model that Parley serves, once its server is up."""
    if endpoint.base_url is None:
        raise ConfigError(
            f"model {identity.label}: its server is not running; start it first and give its"
            " address as base_url"
        )
    return open_endpoint(identity, endpoint, settings)


async def check(
    identity: ModelIdentity, endpoint: ModelEndpoint, environ: Mapping[str, str] | None = None
) -> None:
    """Ask the endpoint whether it is there and knows key and model."""
    from tasks.language.opening import check_endpoint

    await check_endpoint(identity, endpoint, environ)


async def facts(
    identity: ModelIdentity, endpoint: ModelEndpoint, environ: Mapping[str, str] | None = None
) -> Mapping[str, str] | None:
    """Ask the endpoint what it tells of the model."""
    from tasks.language.opening import served_facts

    return await served_facts(identity, endpoint, environ)


def usual_key(rest: str) -> str | None:
    """Return OpenAI's own variable for models that OpenAI's own endpoint serves."""
    return OPENAI_KEY_VARIABLE if "@http" not in rest or OPENAI_URL in rest else None


PROVIDER = ModelProvider(
    forms=("openai:MODEL[@BASE_URL]",),
    read=read,
    open=open_endpoint,
    shown_name=lambda rest: file_name(rest.partition("@")[0]),
    check=check,
    facts=facts,
    usual_key=usual_key,
    takes_batches=True,
    secret_variables=secret_variables,
)
