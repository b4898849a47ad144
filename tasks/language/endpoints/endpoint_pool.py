"""One HTTP client, adaptive limit and outage watch per endpoint, event loop and process, shared by all models opened on it.

Runs that go side by side open the same endpoint with limits of their own: the least of what they grant counts for all of them.
"""

import asyncio
import hashlib
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tasks.language.endpoints.concurrency import AdaptiveLimit
from tasks.language.endpoints.endpoint_key import OPENAI_URL
from tasks.language.endpoints.outage import OutagePolicy, OutageWatch
from tasks.language.endpoints.wire import TokenLimitName, json_bytes

if TYPE_CHECKING:
    from aiohttp import ClientSession
    from openai import AsyncOpenAI

_KEEP_ALIVE_S = 4.0
"""Below the 5 s after which uvicorn (vLLM) closes an idle connection, so that no request meets a closing one."""


@dataclass
class EndpointPool:
    """One endpoint's client. Leave it once for each `join_pool`; the last to leave closes it."""

    client: "AsyncOpenAI"
    session: "ClientSession"
    url: str
    limit: AdaptiveLimit
    watch: OutageWatch
    account: str = ""
    """Pools of one account (address and key) share their limit and, with one outage policy, their watch."""
    concurrency: int = 1
    """What the models of this pool grant."""
    token_limit_name: TokenLimitName = "max_tokens"
    """Newer OpenAI models refuse `max_tokens`; learnt from their refusal."""
    takes_schema: bool = True
    """Whether it takes the JSON schema of an answer; learnt from its refusal."""
    users: int = 0

    def __repr__(self) -> str:
        return f"EndpointPool({self.url}, users={self.users})"

    async def post(self, path: str, body: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        """Send one JSON body: status, headers and bytes of what came back, whatever it is.

        Raises:
            aiohttp.ClientError, OSError: no connection, or one that broke off.
        """
        async with self.session.post(self.url + path, data=json_bytes(body), allow_redirects=False) as response:
            return response.status, response.headers, await response.read()

    async def leave(self) -> None:
        """Stop using the pool; the last user closes its connections."""
        self.users -= 1
        if self.users == 0:
            pools = _POOLS.get(asyncio.get_running_loop(), {})
            for name in [name for name, pool in pools.items() if pool is self]:
                del pools[name]
            if not any(pool.watch is self.watch for pool in pools.values()):
                self.watch.close()
            _agree(self.account, pools)
            await self.session.close()
            await self.client.close()


_POOLS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, EndpointPool]] = weakref.WeakKeyDictionary()


def join_pool(
    url: str, key: str | None, *, concurrency: int, connect_s: float, timeout_s: float, outage: OutagePolicy
) -> EndpointPool:
    """The running loop's pool for an endpoint, made at first use."""
    pools = _POOLS.setdefault(asyncio.get_running_loop(), {})
    name = hashlib.sha256(repr((url, key, concurrency, connect_s, timeout_s, outage)).encode()).hexdigest()
    if name not in pools:
        client = _client(url, key, concurrency=concurrency, connect_s=connect_s, timeout_s=timeout_s)
        session = _session(client, url, concurrency=concurrency, connect_s=connect_s)
        account = hashlib.sha256(repr((url, key)).encode()).hexdigest()
        beside = [pool for pool in pools.values() if pool.account == account]
        limit = beside[0].limit if beside else AdaptiveLimit(concurrency)
        watch = next((pool.watch for pool in beside if pool.watch.policy == outage), None) or OutageWatch(url, outage)
        pools[name] = EndpointPool(client, session, url.rstrip("/"), limit, watch, account, concurrency)
        _agree(account, pools)
    pools[name].users += 1
    return pools[name]


def _agree(account: str, pools: Mapping[str, EndpointPool]) -> None:
    """Let all that share an endpoint keep to the least that one of them grants."""
    beside = [pool for pool in pools.values() if pool.account == account]
    if beside:
        beside[0].limit.grant(min(pool.concurrency for pool in beside))


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine itself, where no proxy has any business."""
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


def _session(client: "AsyncOpenAI", url: str, *, concurrency: int, connect_s: float) -> "ClientSession":
    """The session of chat requests: it has the SDK's own authorization, and keeps no cookies of a server."""
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=concurrency, keepalive_timeout=_KEEP_ALIVE_S),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_s),
        headers={
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "parley",
            **_authorization(client),
        },
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=not is_loopback(url),
    )


def _authorization(client: "AsyncOpenAI") -> dict[str, str]:
    account = {"OpenAI-Organization": client.organization, "OpenAI-Project": client.project}
    return {**client.auth_headers, **{name: value for name, value in account.items() if value}}


def _forget_openai_account(client: "AsyncOpenAI") -> None:
    """The SDK takes these from OpenAI's environment variables and would send them to anyone."""
    client.organization = client.project = client.admin_api_key = client.webhook_secret = None
    client._custom_headers = {}
