"""One HTTP client and one adaptive limit per endpoint, event loop and process, shared by all models opened on it."""

import asyncio
import hashlib
import weakref
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tasks.language.concurrency import AdaptiveLimit
from tasks.language.endpoint_key import OPENAI_URL
from tasks.language.wire import TokenLimitName

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_KEEP_ALIVE_S = 4.0
"""Below the 5 s after which uvicorn (vLLM) closes an idle connection, so that no request meets one that is being closed."""


@dataclass
class EndpointPool:
    """Left once for each `join_pool`; the last to leave closes it."""

    client: "AsyncOpenAI"
    limit: AdaptiveLimit
    token_limit_name: TokenLimitName = "max_tokens"
    """Newer OpenAI models refuse `max_tokens`; learnt from their refusal."""
    users: int = 0

    def __repr__(self) -> str:
        return f"EndpointPool({self.client.base_url}, users={self.users})"

    async def leave(self) -> None:
        self.users -= 1
        if self.users == 0:
            pools = _POOLS.get(asyncio.get_running_loop(), {})
            for name in [name for name, pool in pools.items() if pool is self]:
                del pools[name]
            await self.client.close()


_POOLS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, EndpointPool]] = weakref.WeakKeyDictionary()


def join_pool(url: str, key: str | None, *, concurrency: int, connect_s: float, timeout_s: float) -> EndpointPool:
    """The running loop's pool for an endpoint, made at first use."""
    pools = _POOLS.setdefault(asyncio.get_running_loop(), {})
    name = hashlib.sha256(repr((url, key, concurrency, connect_s, timeout_s)).encode()).hexdigest()
    if name not in pools:
        client = _client(url, key, concurrency=concurrency, connect_s=connect_s, timeout_s=timeout_s)
        pools[name] = EndpointPool(client, AdaptiveLimit(concurrency))
    pools[name].users += 1
    return pools[name]


def is_loopback(url: str) -> bool:
    """Whether an address is on this machine, where no proxy has any business."""
    """Whether a URL leads to this machine itself."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _client(url: str, key: str | None, *, concurrency: int, connect_s: float, timeout_s: float) -> "AsyncOpenAI":
    import httpx2
    from openai import AsyncOpenAI, DefaultAioHttpClient

    timeout = httpx2.Timeout(timeout_s, connect=connect_s, pool=None)
    http = DefaultAioHttpClient(
        limits=httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency, keepalive_expiry=_KEEP_ALIVE_S),
        timeout=timeout,
        trust_env=not is_loopback(url),
        follow_redirects=False,
    )
    client = AsyncOpenAI(base_url=url, api_key=key or "none", max_retries=0, timeout=timeout, http_client=http)
    if url != OPENAI_URL:
        _forget_openai_account(client)
    return client


def _forget_openai_account(client: "AsyncOpenAI") -> None:
    """The SDK takes these from OpenAI's environment variables and would send them to anyone."""
    client.organization = client.project = client.admin_api_key = client.webhook_secret = None
    client._custom_headers = {}
