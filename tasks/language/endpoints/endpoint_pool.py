"""HTTP client, adaptive limit and outage watch per endpoint, event loop and process.

All models on the endpoint share them. Parallel runs open the same endpoint with limits of their
own: the lowest one applies to all of them.
"""

import asyncio
import hashlib
import ssl
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from schemas.errors import ConfigError
from schemas.run import EndpointProfile
from tasks.language.access import CallPolicy
from tasks.language.endpoints.pacing import AdaptiveLimit, OutageWatch
from tasks.language.endpoints.request_parts import OPENAI_URL
from tasks.language.endpoints.wire import json_bytes

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

    from tasks.language.endpoints.faults import Fault

MAX_BODY_BYTES = 64 << 20
"""Maximum bytes of one decompressed body, so that no body can fill a worker's memory."""
_FIRST_WAIT_S = 1.0
"""Seconds for which requests with a key wait for the first request.

A rejected key is reported sooner, while an answer may take minutes.
"""
_ACCOUNT_REFUSED = (401, 402)
"""Statuses that reject the key or its account, and so every request."""
_LATE_REFUSALS = 3
"""Consecutive rejections after which a key that worked before counts as rejected.

Fewer may be a gateway's occasional failures.
"""
_KEEP_ALIVE_S = 4.0
"""Keep-alive in seconds, below the 5 s after which uvicorn (vLLM) closes an idle connection.

No request then meets a closing connection.
"""


class BodyTooLarge(Exception):
    """Error for a body larger than `MAX_BODY_BYTES`."""

    def __init__(self) -> None:
        super().__init__(
            f"the answer is larger than {MAX_BODY_BYTES >> 20} MiB, which is the limit"
        )


@dataclass
class EndpointPool:
    """Connections of one endpoint.

    Call `leave` once for each `join_pool`. The last call closes the connections.
    """

    session: "ClientSession"
    url: str
    limit: AdaptiveLimit
    watch: OutageWatch
    account: str = ""
    """Account (address and key).

    All pools of an account share one limit. Those with equal outage policies share one watch.
    """
    concurrency: int = 1
    """Maximum number of requests in flight of this pool's models."""
    profiles: dict[tuple[str, EndpointProfile], EndpointProfile] = field(
        default_factory=dict[tuple[str, EndpointProfile], EndpointProfile]
    )
    """Current profile by (model, first profile), as learned from the endpoint's rejections."""
    query: str = ""
    """`?name=value`, appended to the path of each request."""
    users: int = 0
    has_key: bool = False
    """True if requests contain a key, which may be rejected."""
    refusal: "Fault | None" = None
    """Rejection of the key or its account, after which no request is sent."""
    _first: asyncio.Event | None = None
    """Event that is set when the first request has ended. None until it is sent."""
    _has_answered: bool = False
    _n_refusals: int = 0
    """Number of rejections of the key since the last answer."""

    def __repr__(self) -> str:
        return f"EndpointPool({self.url}, users={self.users})"

    async def post(
        self, path: str, body: Mapping[str, Any]
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send one JSON body. Return status, headers and bytes of any response.

        Raises:
            BodyTooLarge: The body is too large.
            aiohttp.ClientError, OSError: There is no connection, or it broke off.
        """
        async with self.session.post(
            self.url + path + self.query, data=json_bytes(body), allow_redirects=False
        ) as response:
            return response.status, response.headers, await _bounded(response)

    async def get(self, path: str) -> tuple[int, Mapping[str, str], bytes]:
        """Read one resource. Returns and raises as `post`."""
        query = self.query.replace("?", "&", 1) if "?" in path else self.query
        async with self.session.get(self.url + path + query, allow_redirects=False) as response:
            return response.status, response.headers, await _bounded(response)

    async def send_first(self) -> None:
        """Wait at most a few seconds for a key's first request: it shows if the key is rejected."""
        if not self.has_key:
            return
        if self._first is None:
            self._first = asyncio.Event()
        elif not self._first.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._first.wait(), _FIRST_WAIT_S)

    def abandoned(self) -> None:
        """Let waiting requests start, because the first one was cancelled."""
        if self._first is not None:
            self._first.set()

    def ended(self, fault: "Fault | None") -> None:
        """Record that a request ended, with an answer or a fault."""
        if fault is None:
            self._has_answered, self._n_refusals = True, 0
        elif fault.kind == "permanent" and fault.status in _ACCOUNT_REFUSED:
            self._n_refusals += 1
            if not self._has_answered or self._n_refusals >= _LATE_REFUSALS:
                self.refusal = fault
        self.abandoned()

    def count(
        self, ticket: int, *, kind: str = "", text: str = "", status: int | None = None
    ) -> None:
        """Report to the concurrency limit and the outage watch how a request ended.

        Args:
            ticket: Ticket that the limit gave this request.
            kind: Kind of the fault. Empty for an answer.
            text: Text of the fault.
            status: HTTP status, if any.
        """
        if not kind:
            self.limit.succeeded(ticket)
        if kind == "overload":
            self.limit.overloaded(ticket)
        if kind in ("overload", "transient") and not 400 <= (status or 0) < 500:
            self.watch.failed(text, has_status=status is not None)
        elif self.watch.n_faults:
            self.watch.answered()

    async def leave(self) -> None:
        """Stop using the pool. The call of its last user closes the connections."""
        self.users -= 1
        if self.users == 0:
            pools = _POOLS.get(asyncio.get_running_loop(), {})
            for name in [name for name, pool in pools.items() if pool is self]:
                del pools[name]
            if not any(pool.watch is self.watch for pool in pools.values()):
                self.watch.close()
            _agree(self.account, pools)
            await self.session.close()


async def _bounded(response: "ClientResponse") -> bytes:
    parts, size = list[bytes](), 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise BodyTooLarge
        parts.append(part)
    return b"".join(parts)


_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_POOLS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, EndpointPool]] = (
    weakref.WeakKeyDictionary()
)


def join_pool(
    url: str,
    key: str | None,
    *,
    policy: CallPolicy,
    ca_file: str | None = None,
    headers: Mapping[str, str] = _NO_HEADERS,
    query: tuple[tuple[str, str], ...] = (),
) -> EndpointPool:
    """Return the running loop's pool for an endpoint. The first call creates it.

    Args:
        url: Base URL of the endpoint.
        key: Key of the endpoint, if any.
        policy: Limits of the calls. The pool uses `concurrency`, `connect_s` and `outage`.
        ca_file: PEM file of certificate authorities to trust in addition to the usual ones.
        headers: Additional headers of each request, with their values.
        query: Parameters appended to the path of each request.

    Raises:
        ConfigError: `ca_file` cannot be used.
    """
    concurrency, outage = policy.concurrency, policy.outage
    pools = _POOLS.setdefault(asyncio.get_running_loop(), {})
    account = hashlib.sha256(repr((url, key, *sorted(headers.items()))).encode()).hexdigest()
    name = repr((account, concurrency, policy.connect_s, outage, ca_file, query))
    if name not in pools:
        session = _session(url, key, ca_file, headers, policy)
        beside = [pool for pool in pools.values() if pool.account == account]
        limit = beside[0].limit if beside else AdaptiveLimit(concurrency)
        watch = next(
            (pool.watch for pool in beside if pool.watch.policy == outage), None
        ) or OutageWatch(url, outage)
        behind = f"?{urlencode(query)}" if query else ""
        pool = EndpointPool(
            session, url.rstrip("/"), limit, watch, account, concurrency, query=behind
        )
        pool.has_key = key is not None or bool(headers)
        pools[name] = pool
        _agree(account, pools)
    pools[name].users += 1
    return pools[name]


def _agree(account: str, pools: Mapping[str, EndpointPool]) -> None:
    """Apply the lowest concurrency of all pools that share an endpoint."""
    beside = [pool for pool in pools.values() if pool.account == account]
    if beside:
        beside[0].limit.grant(min(pool.concurrency for pool in beside))


def is_loopback(url: str) -> bool:
    """Return True if a URL leads to this machine, so that no proxy applies."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _session(
    url: str,
    key: str | None,
    ca_file: str | None,
    extra: Mapping[str, str],
    policy: CallPolicy,
) -> "ClientSession":
    """Return the session of all requests, with authorization and no server cookies."""
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=policy.concurrency, keepalive_timeout=_KEEP_ALIVE_S, ssl=trusted_by(ca_file)
        ),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=policy.connect_s),
        headers={
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "parley",
            **_authorization(url, key, extra),
            **extra,
        },
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=not is_loopback(url),
    )


def trusted_by(ca_file: str | None) -> ssl.SSLContext:
    """Return a context that trusts the certificate authorities of `ca_file` and the usual ones.

    The usual ones are those of SSL_CERT_FILE and SSL_CERT_DIR, or else the system's.

    Raises:
        ConfigError: The file does not exist or contains no certificate.
    """
    context = ssl.create_default_context()
    if ca_file:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:  # ssl.SSLError is an OSError
            raise ConfigError(
                f"--ca-file {ca_file}: {error.strerror or error}. Give a PEM file of certificates"
            ) from None
    return context


def _authorization(url: str, key: str | None, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the headers for authorization, equal to those of OpenAI's SDK.

    Organization and project from the environment are sent only to OpenAI. The result is empty if
    configured headers authorize requests: one of them is `Authorization`, or no key is set.
    """
    if "authorization" in map(str.lower, extra) or (extra and key is None):
        return {}
    if url != OPENAI_URL:
        return {"Authorization": f"Bearer {key or 'none'}"}
    from openai import AsyncOpenAI  # The import takes 0.4 s of CPU in each process.

    client = AsyncOpenAI(base_url=url, api_key=key or "none", max_retries=0)
    account = {"OpenAI-Organization": client.organization, "OpenAI-Project": client.project}
    return {**client.auth_headers, **{name: value for name, value in account.items() if value}}
