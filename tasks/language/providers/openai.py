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
from tasks.language.access import ModelAccess
from tasks.language.endpoints.request_parts import OPENAI_KEY_VARIABLE, OPENAI_URL, secret_variables
from tasks.language.providers.contract import ModelProvider, OpenSettings, SpecSettings, file_name

if TYPE_CHECKING:
    from tasks.language.chat_model import ChatModel

NAME = "openai"


def read(rest: str, settings: SpecSettings) -> ModelAccess:
    """Return the model of a spec. The last `@http` begins its address."""
    settings.refuse_name()
    at = max(rest.rfind("@http://"), rest.rfind("@https://"))
    name, url = (rest, None) if at < 0 else (rest[:at], rest[at + 1 :])
    if not name.strip():
        raise ConfigError(
            f"model {settings.text!r}: no model name before the address; write"
            " openai:MODEL@BASE_URL"
        )
    if url is None and re.search(r"@(localhost|[\w.-]+:\d+)(/|$)|@\w+:/", name):
        raise ConfigError(
            f"model {settings.text!r}: an address begins with http:// or https://; write"
            " openai:MODEL@http://HOST:PORT/v1"
        )
    address, query = _address(url, settings.text)
    identity = ModelIdentity(provider=NAME, name=name.strip(), revision=settings.unpinned)
    return ModelAccess(
        identity, ModelEndpoint(base_url=address, key_env=settings.key_env, query=query)
    )


def _address(url: str | None, text: str) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """Return the base URL without its query, and the query's parameters."""
    if url is None:
        return None, ()
    try:
        parts = urlsplit(url)
        is_valid = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        parts, is_valid = urlsplit(""), False
    if parts.username or parts.password:
        raise ConfigError(
            f"model {text.split('@')[0]!r}: its address contains a user or password; put the key"
            " into a variable and set key_env to its name"
        )
    if not is_valid or parts.fragment or re.search(r"\s", url):
        raise ConfigError(
            f"model {text!r}: {url!r} is not a base URL; write one like http://127.0.0.1:8000/v1"
        )
    query = tuple(parse_qsl(parts.query, keep_blank_values=True))
    for name, _ in query:
        if looks_secret(name.replace("-", "_")):
            raise ConfigError(
                f"model {text.split('@')[0]!r}: the query of its address contains"
                f" {plain_line(name, 40)!r}, which looks like a key."
                " Put the key into a variable and name the variable by key_env or --header"
                " NAME=ENV_VARIABLE"
            )
    return url.partition("?")[0].rstrip("/"), query


def open_endpoint(access: ModelAccess, settings: OpenSettings) -> "ChatModel":
    """Open a model behind an OpenAI-compatible endpoint.

    Its replicas share the concurrency evenly.
    """
    from tasks.language.endpoints.openai_model import OpenAIModel
    from tasks.language.opening import StickyModel
    from tasks.language.prompt import PromptedModel

    endpoint, environ, on_send = access.endpoint, settings.environ, settings.on_send
    if endpoint.batches is not None:
        from tasks.language.endpoints.batch_model import RETRY_WINDOW_S, BatchModel

        slow = replace(access, policy=replace(access.policy, retry_window_s=RETRY_WINDOW_S))
        folder = Path(endpoint.batches)
        model: ChatModel = BatchModel(slow, folder, environ=environ, on_send=on_send)
    else:
        urls = endpoint.replicas or (endpoint.base_url,)
        share = access.limited(-(-access.policy.concurrency // len(urls)))
        replicas = [
            replace(share, endpoint=endpoint.model_copy(update={"base_url": url, "replicas": ()}))
            for url in urls
        ]
        models = [OpenAIModel(one, environ=environ, on_send=on_send) for one in replicas]
        model = StickyModel(models) if len(models) > 1 else models[0]
    return PromptedModel(model, endpoint.system_text) if endpoint.system_text else model


def open_served(access: ModelAccess, settings: OpenSettings) -> "ChatModel":
    """Open a model whose server Parley has started."""
    if access.endpoint.base_url is None:
        raise ConfigError(
            f"model {access.label}: its server is not running; start it first and set base_url"
            " to its address"
        )
    return open_endpoint(access, settings)


async def check(access: ModelAccess, environ: Mapping[str, str] | None = None) -> None:
    """Check that the endpoint answers and accepts key and model."""
    from tasks.language.opening import check_endpoint

    await check_endpoint(access, environ)


async def facts(
    access: ModelAccess, environ: Mapping[str, str] | None = None
) -> Mapping[str, str] | None:
    """Return the facts that the endpoint reports about the model."""
    from tasks.language.opening import served_facts

    return await served_facts(access, environ)


def usual_key(rest: str) -> str | None:
    """Return OpenAI's own variable for models of OpenAI's endpoint, or None."""
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
