"""Any OpenAI-compatible endpoint: APIs, vLLM and the embedded server alike.

The SDK knows address and key and lists the models; the chat request itself goes straight over an aiohttp session, which takes a
third of the CPU of the SDK's cheapest call (DECISIONS: model client). Retries, time limits and concurrency are ours.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn, Protocol, TypeVar

from schemas.errors import ModelUnavailable
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.chat_model import ChatRequest, Completion
from tasks.language.endpoints.call_policy import CallPolicy
from tasks.language.endpoints.endpoint_key import endpoint_url, key_variable, resolve_key
from tasks.language.endpoints.endpoint_pool import EndpointPool, join_pool
from tasks.language.endpoints.faults import Fault, read_fault, shortened
from tasks.language.endpoints.outage import OutageWatch
from tasks.language.endpoints.tool_text import calls_in, with_tools_as_text
from tasks.language.endpoints.wire import Answer, MalformedAnswer, is_plausible_name, read_answer, request_body, without_reasoning


class Served(Protocol):
    """What a request brought: it names who answered, if the endpoint says."""

    @property
    def served_model(self) -> str | None:
        """The name of the model that answered."""
        ...


T = TypeVar("T", bound=Served)


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
        """Raises ConfigError where the key's variable is not set."""
        self.identity = identity
        self.url = endpoint_url(endpoint)
        self._name = endpoint.served_name or identity.name
        self._policy = policy or CallPolicy()
        self._key_variable = key_variable(endpoint)
        self._key = resolve_key(endpoint, environ)
        self._pool: EndpointPool | None = None
        self._has_served = False
        self._takes_tools = True

    def __repr__(self) -> str:
        return f"OpenAIModel({self.identity.label} at {self.url})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} holds a key and connections: send identity and endpoint, and call open_model where it is used")

    def pool(self) -> EndpointPool:
        """The endpoint's client and limit on the running loop; joined at the first call."""
        if self._pool is None:
            p = self._policy
            self._pool = join_pool(
                self.url, self._key, concurrency=p.concurrency, connect_s=p.connect_s, timeout_s=p.timeout_s, outage=p.outage
            )
        return self._pool

    async def aclose(self) -> None:
        """Leave the endpoint's pool."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.leave()

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request, with retries.

        Raises:
            ModelUnavailable: no usable answer; `permanent` where asking again cannot help, `n_calls` the requests sent.
        """
        name, as_text = self._name, False

        def ask(pool: EndpointPool) -> Awaitable[Answer | Fault]:
            nonlocal as_text
            as_text = bool(request.tools) and (request.sampling.tools_as_text or not self._takes_tools)
            sent = with_tools_as_text(request) if as_text else request
            return self.ask(pool, request_body(name, sent, pool.token_limit_name, takes_schema=pool.takes_schema))

        outcome, elapsed_s, tries = await self.asked(ask)
        if isinstance(outcome, Fault):
            return Completion(content="", finish_reason=outcome.kind, latency_s=elapsed_s, n_calls=tries)
        return _completion(outcome, request, elapsed_s, tries, as_text=as_text)

    async def asked(self, ask: Callable[[EndpointPool], Awaitable[T | Fault]]) -> tuple[T | Fault, float, int]:
        """What `ask` brings in the end: (it, seconds, requests sent). A fault is the endpoint's judgement of a text.

        Args:
            ask: sends one request.

        Raises:
            ModelUnavailable: see `complete`.
        """
        pool = self.pool()
        started_s = tries = 0
        last_try = self._policy.max_tries
        while True:
            if pool.watch.is_down:
                waited_s = await self._outlast(pool.watch, tries)
                started_s, last_try = started_s and started_s + waited_s, tries + self._policy.max_tries
            try:
                ticket = await pool.limit.acquire(again=tries > 0)
                try:
                    if pool.watch.is_down and not pool.watch.is_probe():
                        continue
                    started_s, tries = started_s or time.monotonic(), tries + 1
                    outcome = await ask(pool)
                    _tell(pool, ticket, outcome)
                finally:
                    pool.limit.release()
            except BaseException:
                pool.watch.abandoned()
                raise
            elapsed_s = time.monotonic() - started_s
            if not isinstance(outcome, Fault):
                imposture = self._imposture(outcome)
                if imposture is None:
                    return outcome, elapsed_s, tries
                outcome = imposture
            if outcome.kind in ("context_length", "content_filter"):
                return outcome, elapsed_s, tries
            if outcome.kind == "token_limit_name":
                pool.token_limit_name = "max_completion_tokens"
                continue
            if outcome.kind == "answer_schema":
                pool.takes_schema = False
                continue
            if outcome.kind == "no_tools":
                self._takes_tools = False
                continue
            if pool.watch.is_down:
                continue
            wait_s = self._wait_s(outcome, tries)
            has_tried_enough = tries >= last_try and not pool.watch.is_suspect
            if outcome.kind == "permanent" or has_tried_enough or elapsed_s + wait_s > self._policy.patience_s:
                raise self.unavailable(outcome, tries)
            await asyncio.sleep(wait_s)

    async def _outlast(self, watch: OutageWatch, tries: int) -> float:
        """Wait until the endpoint is back, or until this request is chosen to find out; returns the seconds waited.

        Raises:
            ModelUnavailable: it did not come back in time.
        """
        begun_s = time.monotonic()
        if not await watch.wait():
            raise self.unavailable(Fault("transient", watch.describe()), tries)
        return time.monotonic() - begun_s

    async def ask(self, pool: EndpointPool, body: dict[str, Any]) -> Answer | Fault:
        """One request for one answer, without retries."""
        outcome = await self.call(pool, "/chat/completions", body)
        if isinstance(outcome, Fault):
            return outcome
        try:
            return self._without_key(read_answer(outcome))
        except MalformedAnswer as error:
            return Fault("transient", self.shown(str(error)), 200)

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
                status, headers, data = await pool.post(path, body)
                return data if 200 <= status < 300 else self._refusal(status, data.decode("utf-8", "replace"), headers, body)
        except APIStatusError as error:
            return self._refusal(error.status_code, error.response.text, error.response.headers, body or {})
        except (TimeoutError, OpenAIError, aiohttp.ClientError, OSError) as error:
            causes = _causes(error)
            if any(isinstance(cause, TimeoutError) for cause in causes):
                return Fault("overload", f"no answer in time (limit {self._policy.timeout_s:g} s)")
            said = f"{type(causes[-1]).__name__}: {causes[-1]}".removesuffix(": ")
            return Fault("transient", f"no connection, or one that broke off ({self.shown(said)})")

    def _refusal(self, status: int, text: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> Fault:
        fault = read_fault(status, self.redacted(text), headers, body)
        return replace(fault, text=self.redacted(fault.text))

    def _without_key(self, answer: Answer) -> Answer:
        """The answer without our key: a gateway may write it into an answer, which journal and tables keep."""
        calls = tuple(call.model_copy(update={name: self.redacted(text) for name, text in call}) for call in answer.calls)
        texts = {"content": answer.content, "finish_reason": answer.finish_reason, "served_model": answer.served_model}
        echoed = {name: self.redacted(text) for name, text in texts.items() if text and self._key and self._key in text}
        return replace(answer, calls=calls, **echoed) if echoed or calls else answer

    def redacted(self, text: str) -> str:
        """The text without our key, should an endpoint send it back."""
        return text.replace(self._key, "[key]") if self._key else text

    def shown(self, text: str) -> str:
        """The endpoint's text as one short, plain line without our key, even where cleaning would cut the key or join it."""
        return self.redacted(shortened(self.redacted(text)))

    def _imposture(self, answer: Served) -> Fault | None:
        """The fault of an answer by another model. A retry may help if the right model answered before (a gateway's fallback)."""
        served = answer.served_model
        if served is None or not self._policy.check_served_model or is_plausible_name(self._name, served):
            self._has_served = True
            return None
        return Fault(
            "transient" if self._has_served else "permanent",
            f"{self.shown(served)!r} answered instead",
            200,
            remedy="Ask for the model by that name, or pass --no-check-served-model if it is an alias",
        )

    def _wait_s(self, fault: Fault, tries: int) -> float:
        policy = self._policy
        if fault.retry_after_s is not None:
            return min(fault.retry_after_s, policy.max_retry_after_s) + random.uniform(0, policy.backoff_s)
        return random.uniform(0, min(policy.max_backoff_s, policy.backoff_s * 2 ** (tries - 1)))

    def unavailable(self, fault: Fault, tries: int) -> ModelUnavailable:
        """The error for a fault: model, address, the endpoint's words and the remedy."""
        after = "" if tries <= 1 else f" ({tries} tries)"
        remedy = fault.remedy or "Is the server running and reachable, and the address right?"
        if fault.status in (401, 403):
            unnamed = "name its variable with --key-env (`key_env` in a configuration file)"
            remedy += f": check the variable {self._key_variable}" if self._key_variable else f": {unnamed}"
        return ModelUnavailable(
            f"model {self.identity.name!r} at {self.url}: {fault.text}{after}. {remedy}",
            permanent=fault.kind == "permanent",
            n_calls=tries,
        )


def _tell(pool: EndpointPool, ticket: int, outcome: Served | Fault) -> None:
    watch = pool.watch
    if not isinstance(outcome, Fault):
        pool.limit.succeeded(ticket)
        if watch.n_faults:
            watch.answered()
        return
    if outcome.kind == "overload":
        pool.limit.overloaded(ticket)
    is_silence = outcome.kind in ("overload", "transient") and not 400 <= (outcome.status or 0) < 500
    if is_silence:
        watch.failed(outcome.text, has_status=outcome.status is not None)
    elif watch.n_faults:
        watch.answered()


def _causes(error: BaseException) -> list[BaseException]:
    """The error and its causes, innermost last: the SDK's own message is always `Connection error.`"""
    causes = [error]
    while (inner := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(inner)
    return causes


def _completion(answer: Answer, request: ChatRequest, latency_s: float, n_calls: int, *, as_text: bool) -> Completion:
    content = without_reasoning(answer.content) if request.sampling.omit_reasoning else answer.content
    content, calls = calls_in(content, request.tools) if as_text else (content, answer.calls)
    return Completion(
        content=content,
        finish_reason=answer.finish_reason,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        latency_s=latency_s,
        served_model=answer.served_model,
        n_calls=n_calls,
        calls=calls,
    )
