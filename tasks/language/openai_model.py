"""Any OpenAI-compatible endpoint: APIs, vLLM and the embedded server alike.

Called through the SDK's `post` with raw bytes as answer, over the aiohttp transport: about a third of the CPU of its typed call
(DECISIONS: model client). Retries, time limits and concurrency are ours; the SDK's are off.
"""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from schemas.errors import ModelUnavailable
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.chat_model import ChatRequest, Completion
from tasks.language.endpoint_key import endpoint_url, key_variable, resolve_key
from tasks.language.endpoint_pool import EndpointPool, join_pool
from tasks.language.wire import (
    Answer,
    Fault,
    MalformedAnswer,
    is_plausible_name,
    read_answer,
    read_fault,
    request_body,
    shortened,
    without_reasoning,
)


@dataclass(frozen=True)
class CallPolicy:
    """How one endpoint is called. None of it can change an answer."""

    concurrency: int = 16
    """Most requests in flight at once in this process; 1 and up."""
    connect_s: float = 10.0
    timeout_s: float = 300.0
    """Of one request, connection included."""
    max_tries: int = 8
    patience_s: float = 900.0
    """No new try begins later than this after the first."""
    backoff_s: float = 0.5
    """Longest first wait; doubles with each try (full jitter)."""
    max_backoff_s: float = 30.0
    max_retry_after_s: float = 120.0
    """A longer Retry-After is cut to this."""
    check_served_model: bool = True


class OpenAIModel:
    """Belongs to the event loop of its first call. Cheap to open: models on one endpoint share client, connections and limit."""

    def __init__(
        self,
        identity: ModelIdentity,
        endpoint: ModelEndpoint,
        *,
        policy: CallPolicy | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Raises ConfigError where the variable that should hold the key is not set."""
        self.identity = identity
        self.url = endpoint_url(endpoint)
        self._policy = policy or CallPolicy()
        self._key_variable = key_variable(endpoint)
        self._key = resolve_key(endpoint, environ)
        self._pool: EndpointPool | None = None

    def __repr__(self) -> str:
        return f"OpenAIModel({self.identity.label} at {self.url})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} holds a key and connections: send identity and endpoint, and call open_model where it is used")

    def pool(self) -> EndpointPool:
        """The endpoint's client and limit on the running loop; joined at the first call."""
        if self._pool is None:
            p = self._policy
            self._pool = join_pool(self.url, self._key, concurrency=p.concurrency, connect_s=p.connect_s, timeout_s=p.timeout_s)
        return self._pool

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.leave()

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request, with retries.

        Raises:
            ModelUnavailable: no usable answer; `permanent` where asking again cannot help, `n_calls` the requests sent.
        """
        pool = self.pool()
        started_s = tries = 0
        while True:
            body = request_body(self.identity.name, request, pool.token_limit_name)
            ticket = await pool.limit.acquire(again=tries > 0)
            started_s, tries = started_s or time.monotonic(), tries + 1
            try:
                outcome = await self.ask(pool, body)
                _tell(pool, ticket, outcome)
            finally:
                pool.limit.release()
            elapsed_s = time.monotonic() - started_s
            if isinstance(outcome, Answer):
                self._check_served(outcome, tries)
                return _completion(outcome, request.sampling.omit_reasoning, elapsed_s, tries)
            if outcome.kind in ("context_length", "content_filter"):
                return Completion(content="", finish_reason=outcome.kind, latency_s=elapsed_s, n_calls=tries)
            if outcome.kind == "token_limit_name":
                pool.token_limit_name = "max_completion_tokens"
                continue
            wait_s = self._wait_s(outcome, tries)
            if outcome.kind == "permanent" or tries >= self._policy.max_tries or elapsed_s + wait_s > self._policy.patience_s:
                raise self.unavailable(outcome, tries)
            await asyncio.sleep(wait_s)

    async def ask(self, pool: EndpointPool, body: dict[str, Any]) -> Answer | Fault:
        """One request for one answer, without retries."""
        outcome = await self.call(pool, "/chat/completions", body)
        if isinstance(outcome, Fault):
            return outcome
        try:
            return read_answer(outcome)
        except MalformedAnswer as error:
            return Fault("transient", self.shown(str(error)))

    async def call(self, pool: EndpointPool, path: str, body: dict[str, Any] | None = None) -> bytes | Fault:
        """One request: POST with a body, else GET.

        Every way of failing becomes a Fault here, so that no exception carries request or key any further.
        """
        import aiohttp
        from openai import APIStatusError, OpenAIError

        try:
            async with asyncio.timeout(self._policy.timeout_s):
                if body is None:
                    return await pool.client.get(path, cast_to=bytes)
                return await pool.client.post(path, body=body, cast_to=bytes)
        except APIStatusError as error:
            fault = read_fault(error.status_code, self.redacted(error.response.text), error.response.headers, body or {})
            return replace(fault, text=self.redacted(fault.text))
        except (TimeoutError, OpenAIError, aiohttp.ClientError, OSError) as error:
            causes = _causes(error)
            if any(isinstance(cause, TimeoutError) for cause in causes):
                return Fault("overload", f"no answer in time (limit {self._policy.timeout_s:g} s)")
            said = f"{type(causes[-1]).__name__}: {causes[-1]}".removesuffix(": ")
            return Fault("transient", f"no connection, or one that broke off ({self.shown(said)})")

    def redacted(self, text: str) -> str:
        """The text without our key, should an endpoint send it back."""
        return text.replace(self._key, "[key]") if self._key else text

    def shown(self, text: str) -> str:
        """The endpoint's text as one short, plain line without our key: neither cut in half nor put together by the cleaning."""
        return self.redacted(shortened(self.redacted(text)))

    def _check_served(self, answer: Answer, tries: int) -> None:
        served = answer.served_model
        if served is None or not self._policy.check_served_model or is_plausible_name(self.identity.name, served):
            return
        raise ModelUnavailable(
            f"model {self.identity.name!r} at {self.url}: {self.shown(served)!r} answered instead."
            " Ask for the model by that name, or pass --no-check-served-model if it is an alias",
            permanent=True,
            n_calls=tries,
        )

    def _wait_s(self, fault: Fault, tries: int) -> float:
        policy = self._policy
        if fault.retry_after_s is not None:
            return min(fault.retry_after_s, policy.max_retry_after_s) + random.uniform(0, policy.backoff_s)
        return random.uniform(0, min(policy.max_backoff_s, policy.backoff_s * 2 ** (tries - 1)))

    def unavailable(self, fault: Fault, tries: int) -> ModelUnavailable:
        """The error that a fault ends in: model, address, what was said, and the remedy."""
        after = "" if tries == 1 else f" ({tries} tries)"
        remedy = fault.remedy or "Is the server running and reachable, and the address right?"
        if fault.status in (401, 403):
            remedy += f": check the variable {self._key_variable}" if self._key_variable else ": name its variable with --key-env"
        return ModelUnavailable(
            f"model {self.identity.name!r} at {self.url}: {fault.text}{after}. {remedy}",
            permanent=fault.kind == "permanent",
            n_calls=tries,
        )


def _tell(pool: EndpointPool, ticket: int, outcome: Answer | Fault) -> None:
    if isinstance(outcome, Answer):
        pool.limit.succeeded(ticket)
    elif outcome.kind == "overload":
        pool.limit.overloaded(ticket)


def _causes(error: BaseException) -> list[BaseException]:
    """The error and what it came from, innermost last: the SDK's own message is always `Connection error.`"""
    causes = [error]
    while (inner := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(inner)
    return causes


def _completion(answer: Answer, omit_reasoning: bool, latency_s: float, n_calls: int) -> Completion:
    return Completion(
        content=without_reasoning(answer.content) if omit_reasoning else answer.content,
        finish_reason=answer.finish_reason,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        latency_s=latency_s,
        served_model=answer.served_model,
        n_calls=n_calls,
    )
