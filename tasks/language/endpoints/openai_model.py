"""Client for any OpenAI-compatible endpoint: APIs, vLLM and the embedded server.

Requests go directly over an aiohttp session, which takes a third of the CPU of the SDK's cheapest
call (decision 0010). Retries, time limits and concurrency are Parley's.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn, Protocol, TypeVar

from schemas.errors import ModelUnavailable
from schemas.run import EndpointProfile
from tasks.language.access import ModelAccess
from tasks.language.chat_model import ChatRequest, Completion, OnSend, Send, ignore_send
from tasks.language.endpoints.answer_text import Thought, with_tools_as_text
from tasks.language.endpoints.answers import (
    Answer,
    ErrorInAnswer,
    MalformedAnswer,
    completion_of,
    read_answer,
    thought_of,
)
from tasks.language.endpoints.endpoint_pool import BodyTooLarge, EndpointPool, join_pool
from tasks.language.endpoints.faults import Fault, read_fault, shortened, without_answer
from tasks.language.endpoints.pacing import OutageWatch
from tasks.language.endpoints.request_parts import (
    endpoint_url,
    key_variable,
    resolve_headers,
    resolve_key,
    secrets_of,
    without,
)
from tasks.language.endpoints.wire import adapt, is_plausible_name, observed, request_body

_REMEDIES = {
    "merged_messages": "The model's chat template rejects the native form of the messages."
    " Use --messages merged, or auto"
}
"""Remedy for each kind of rejection that no adapted form of the request avoids."""


class Served(Protocol):
    """Result of a request that names the model behind it, if the endpoint reports one."""

    @property
    def served_model(self) -> str | None:
        """Return the name of the model that answered, as the endpoint reports it."""
        ...


T = TypeVar("T", bound=Served)


class OpenAIModel:
    """Model at an endpoint. It belongs to the event loop of its first call.

    It is cheap to open: models on one endpoint share client, connections and limit.
    """

    sends_one_first = True
    """True if other requests wait for the first one, which shows if the key is rejected."""

    def __init__(
        self,
        access: ModelAccess,
        *,
        environ: Mapping[str, str] | None = None,
        on_send: OnSend = ignore_send,
    ) -> None:
        """Open the model. Raises ConfigError if the variable of the key or of a header is not set.

        `on_send` is called for each sent request once it has ended, and so counts the sends.
        """
        endpoint, self._policy = access.endpoint, access.policy
        self.identity = access.identity
        self.url = endpoint_url(endpoint)
        self._name = endpoint.served_name or access.identity.name
        self._key_variable = key_variable(endpoint)
        self._key = resolve_key(endpoint, environ)
        self._headers, self._query = resolve_headers(endpoint, environ), endpoint.query
        self._secrets = secrets_of(self._key, self._headers)
        self._ca_file = endpoint.ca_file
        self._pool: EndpointPool | None = None
        self._has_served = False
        self._on_send = on_send
        self._first_profile = access.profile

    def __repr__(self) -> str:
        return f"OpenAIModel({self.identity.label} at {self.url})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} contains a key and connections, so it cannot be pickled. Send its"
            " ModelAccess, and call open_model in the other process"
        )

    def pool(self) -> EndpointPool:
        """Return the endpoint's pool on the running event loop. The first call joins the pool."""
        if self._pool is None:
            self._pool = join_pool(
                self.url,
                self._key,
                policy=self._policy,
                ca_file=self._ca_file,
                headers=self._headers,
                query=self._query,
            )
        return self._pool

    async def aclose(self) -> None:
        """Leave the endpoint's pool."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.leave()

    async def complete(self, request: ChatRequest, *, is_repeated: bool = False) -> Completion:
        """Answer one request, with retries. `is_repeated` means that another server got it before.

        Raises:
            ModelUnavailable: No usable answer. `permanent` if a retry cannot help.
        """
        as_text, profile = False, self._first_profile

        def ask(pool: EndpointPool) -> Awaitable[Answer | Fault]:
            nonlocal as_text, profile
            profile = self.profile(pool)
            as_text = bool(request.tools) and (
                request.sampling.tools_as_text or not profile.takes_tools
            )
            sent = with_tools_as_text(request) if as_text else request
            return self.ask(pool, request_body(self._name, sent, profile))

        outcome, elapsed_s, n_sent = await self.send_until_final(ask, is_repeated=is_repeated)
        adapted = profile.adaptations
        if isinstance(outcome, Fault):
            return Completion(
                content="",
                finish_reason=outcome.kind,
                latency_s=elapsed_s,
                n_calls=n_sent,
                adapted=adapted,
            )
        thought = thought_of(outcome, request, profile)
        self._note_thoughts(outcome, thought)
        return replace(
            completion_of(outcome, thought, request, elapsed_s, n_sent, as_text=as_text),
            adapted=adapted,
        )

    @property
    def found_profile(self) -> EndpointProfile:
        """Return the endpoint's profile, as far as its answers and rejections have shown it."""
        return self._first_profile if self._pool is None else self.profile(self._pool)

    def _note_thoughts(self, answer: Answer, thought: Thought) -> None:
        """Record the field that contains an answer's reasoning."""
        pool = self.pool()
        earlier = self.profile(pool)
        profile = earlier.thinking(
            answer.reasoning_place, "tags" if thought.reasoning or thought.is_cut_off else ""
        )
        if profile != earlier:
            pool.profiles[self._name, self._first_profile] = profile

    def profile(self, pool: EndpointPool) -> EndpointProfile:
        """Return the form of this model's requests that its endpoint accepts, as far as known."""
        return pool.profiles.get((self._name, self._first_profile), self._first_profile)

    def _adapt(self, pool: EndpointPool, fault: Fault) -> bool:
        """Adapt the endpoint's profile to a rejection.

        Return True if the request can be sent again immediately, in another form.
        """
        if (profile := adapt(self.profile(pool), fault)) is None:
            return False
        pool.profiles[self._name, self._first_profile] = profile
        return True

    async def send_until_final(
        self, ask: Callable[[EndpointPool], Awaitable[T | Fault]], *, is_repeated: bool = False
    ) -> tuple[T | Fault, float, int]:
        """Return the final result of `ask`, the seconds, and the number of sent requests.

        `ask` sends one request. A returned fault rejects the conversation: too long, or filtered.

        Raises:
            ModelUnavailable: See `complete`.
        """
        pool = self.pool()
        started_s = tries = n_sent = 0
        last_try, own_fault = self._policy.max_tries, ""
        if self.sends_one_first:
            await pool.send_first()
        while True:
            if pool.refusal is not None:
                raise self.unavailable(pool.refusal, tries, n_sent)
            if pool.watch.is_down:
                waited_s = await self._wait_out_outage(pool.watch, tries, n_sent, own_fault)
                started_s, last_try = (
                    started_s and started_s + waited_s,
                    tries + self._policy.max_tries,
                )
            is_under_way = False
            try:
                ticket = await pool.limit.acquire(again=tries > 0)
                try:
                    if pool.refusal is not None or (
                        pool.watch.is_down and not pool.watch.is_probe()
                    ):
                        continue
                    started_s, tries = started_s or time.monotonic(), tries + 1
                    is_under_way = True
                    outcome = await observed(ask(pool))
                    is_under_way = False
                    n_sent += not isinstance(outcome, Fault) or outcome.is_sent
                    if isinstance(outcome, Fault):
                        pool.count(
                            ticket, kind=outcome.kind, text=outcome.text, status=outcome.status
                        )
                    else:
                        pool.count(ticket)
                finally:
                    pool.limit.release()
                pool.ended(outcome if isinstance(outcome, Fault) else None)
            except BaseException:
                pool.watch.abandoned()
                pool.abandoned()
                if is_under_way:  # cancelled, but the endpoint may be working on it
                    self._on_send(Send(is_repeated or tries > 1, is_paid=True))
                raise
            self._on_send(
                Send(is_repeated or tries > 1, not isinstance(outcome, Fault) or outcome.is_paid)
            )
            elapsed_s = time.monotonic() - started_s
            if not isinstance(outcome, Fault):
                if (imposture := self._wrong_model_fault(outcome)) is None:
                    return outcome, elapsed_s, n_sent
                outcome = imposture
            own_fault = outcome.text
            if outcome.kind in ("context_length", "content_filter"):
                return outcome, elapsed_s, n_sent
            if self._adapt(pool, outcome):
                continue
            if pool.watch.is_down:
                continue
            wait_s = self._wait_s(outcome, tries)
            has_tried_enough = tries >= last_try and not pool.watch.is_suspect
            if (
                outcome.kind in ("permanent", "merged_messages")
                or has_tried_enough
                or elapsed_s + wait_s > self._policy.retry_window_s
            ):
                raise self.unavailable(outcome, tries, n_sent)
            await asyncio.sleep(wait_s)

    async def _wait_out_outage(
        self, watch: OutageWatch, tries: int, n_sent: int, own_fault: str
    ) -> float:
        """Wait until the endpoint is back or this request is the probe. Return the seconds waited.

        Raises:
            ModelUnavailable: The endpoint did not return in time.
        """
        begun_s = time.monotonic()
        if not await watch.wait():
            raise self.unavailable(Fault("transient", watch.describe(own_fault)), tries, n_sent)
        return time.monotonic() - begun_s

    async def ask(self, pool: EndpointPool, body: dict[str, Any]) -> Answer | Fault:
        """Send one request for one answer, without retries."""
        outcome = await self.call(pool, "/chat/completions", body)
        if isinstance(outcome, Fault):
            return outcome
        try:
            return self._without_key(read_answer(outcome, self.profile(pool).reasoning_fields))
        except ErrorInAnswer as error:
            return self._refusal(error.status, str(error), {}, body)
        except MalformedAnswer as error:
            return Fault("transient", self.shown(str(error)), 200, is_paid=True)

    async def call(
        self, pool: EndpointPool, path: str, body: dict[str, Any] | None = None
    ) -> bytes | Fault:
        """Send one request: POST with a body, else GET.

        Each failure becomes a Fault here, so that no exception carries the request or the key
        further.
        """
        import aiohttp

        try:
            async with asyncio.timeout(self._policy.timeout_s):
                status, headers, data = await (
                    pool.get(path) if body is None else pool.post(path, body)
                )
        except BodyTooLarge as error:
            return Fault("transient", str(error), 200, is_paid=True)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            return without_answer(error, self._policy.timeout_s, self.shown)
        return (
            data
            if 200 <= status < 300
            else self._refusal(status, data.decode("utf-8", "replace"), headers, body or {})
        )

    def _refusal(
        self, status: int, text: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Fault:
        fault = read_fault(status, self.redacted(text), headers, body)
        return replace(fault, text=self.redacted(fault.text))

    def _without_key(self, answer: Answer) -> Answer:
        """Return the answer without the key: a gateway may repeat it, and answers are stored."""
        calls = tuple(
            call.model_copy(update={name: self.redacted(text) for name, text in call})
            for call in answer.calls
        )
        texts = {
            "content": answer.content,
            "reasoning": answer.reasoning,
            "finish_reason": answer.finish_reason,
            "served_model": answer.served_model,
        }
        echoed = {
            name: clean
            for name, text in texts.items()
            if text and (clean := self.redacted(text)) != text
        }
        return replace(answer, calls=calls, **echoed) if echoed or calls else answer

    def redacted(self, text: str) -> str:
        """Return the text without the key and headers, in case an endpoint sends them back."""
        return without(text, self._secrets)

    def shown(self, text: str) -> str:
        """Return the endpoint's text as one short line without the key.

        The key is removed before and after cleaning, which could cut or join it.
        """
        return self.redacted(shortened(self.redacted(text)))

    def _wrong_model_fault(self, answer: Served) -> Fault | None:
        """Return the fault of an answer by another model.

        A retry may help if the right model answered before (a gateway's fallback).
        """
        served = answer.served_model
        if (
            served is None
            or not self._policy.check_served_model
            or is_plausible_name(self._name, served)
        ):
            self._has_served = True
            return None
        return Fault(
            "transient" if self._has_served else "permanent",
            f"{self.shown(served)!r} answered instead",
            200,
            remedy="Use that name for the model, or pass --no-check-served-model if it is an alias",
        )

    def _wait_s(self, fault: Fault, tries: int) -> float:
        policy = self._policy
        if fault.retry_after_s is not None:
            return min(fault.retry_after_s, policy.max_retry_after_s) + random.uniform(
                0, policy.backoff_s
            )
        return random.uniform(0, min(policy.max_backoff_s, policy.backoff_s * 2 ** (tries - 1)))

    def unavailable(self, fault: Fault, tries: int, n_sent: int | None = None) -> ModelUnavailable:
        """Return the error for a fault: model, address, the endpoint's message and the remedy.

        `n_sent` counts the tries that may have reached the endpoint. None stands for all.
        """
        after = "" if tries <= 1 else f" ({tries} tries)"
        remedy = (
            fault.remedy
            or _REMEDIES.get(fault.kind)
            or "Check the address, and that the server is running and reachable"
        )
        if fault.status in (401, 403):
            unnamed = "name the key's variable with --key-env (`key_env` in a configuration file)"
            checked = f"check the variable {self._key_variable}" if self._key_variable else unnamed
            remedy += f": {checked}"
        return ModelUnavailable(
            f"model {self.identity.name!r} at {self.url}: {fault.text}{after}. {remedy}",
            permanent=fault.kind in ("permanent", "merged_messages"),
            n_calls=tries if n_sent is None else n_sent,
            was_sent=tries > 0,
        )
