"""Pace of an endpoint's requests: adaptive concurrency, and waits during an outage.

The concurrency adapts like TCP's congestion window: additive increase, multiplicative decrease.
During an outage requests wait together, and one at a time is a probe.
"""

import asyncio
import contextlib
import logging
from collections import deque
from datetime import UTC, datetime

from tasks.language.access import OutagePolicy

_MEMORY = 64
"""Number of recent requests that determine the share of overloads."""


class AdaptiveLimit:
    """Adaptive number of requests in flight. It belongs to one event loop.

    The limit starts at the configured concurrency. An overload (429, 5xx, timeout) lowers the
    limit, once for all requests in flight at that moment. As many answers as the limit raise it by
    1/32 of the configured concurrency.

    The share of overloads among recent requests decides how far the limit falls (as in data centre
    TCP): by half if all were overloads, by little if few were. So the limit settles just below an
    endpoint's capacity instead of oscillating between the capacity and its half, and an endpoint
    that fails one request in a hundred for other reasons still gets most of its concurrency.
    """

    def __init__(self, concurrency: int) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency {concurrency}: needs 1 or more")
        self.concurrency = concurrency
        self._window, self._era, self._before = float(concurrency), 0, float(concurrency)
        self._step = max(1.0, concurrency / 32)
        self._overload_share, self._n_known = 0.0, 0
        self._n_out = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def grant(self, concurrency: int) -> None:
        """Change the configured concurrency (1 or more).

        The share of overloads stays, and so does a limit that overloads have lowered.
        """
        if concurrency == self.concurrency:
            return
        is_open = self._window >= self.concurrency
        self.concurrency, self._step = concurrency, max(1.0, concurrency / 32)
        self._window = float(concurrency) if is_open else min(self._window, float(concurrency))
        self._wake()

    @property
    def limit(self) -> int:
        """Return how many requests may be in flight now, from 1 to `concurrency`."""
        return int(self._window)

    async def acquire(self, *, again: bool = False) -> int:
        """Wait for a slot and return a ticket for `succeeded` and `overloaded`.

        A retry (`again`) gets a slot before waiting first tries.
        """
        if self._n_out >= self.limit or self._waiting:
            await self._queue(again)
        else:
            self._n_out += 1
        return self._era

    async def _queue(self, again: bool) -> None:
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if again else self._waiting.append)(slot)
        self._wake()
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled():
                self.release()
            else:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(slot)
            raise

    def release(self) -> None:
        """Free the slot of a request that ended with an answer or a fault."""
        self._n_out -= 1
        self._wake()

    def succeeded(self, ticket: int) -> None:
        """Record an answer. Answers to requests before the last decrease do not raise the limit."""
        self._learn(0.0)
        if ticket == self._era and self._window < self.concurrency:
            self._window = min(float(self.concurrency), self._window + self._step / self._window)
            self._wake()

    def overloaded(self, ticket: int) -> None:
        """Record that the endpoint was overloaded."""
        self._learn(1.0)
        if ticket == self._era:
            self._era, self._before = self._era + 1, self._window
        if ticket == self._era - 1:
            factor = 1 - self._overload_share / 2
            self._window = max(1.0, min(self._window, self._before * factor))

    def _learn(self, overload: float) -> None:
        """Update the share of overloads: a plain mean at first, then a moving one."""
        self._n_known = min(self._n_known + 1, _MEMORY)
        self._overload_share += (overload - self._overload_share) / self._n_known

    def _wake(self) -> None:
        """Assign free slots to waiting requests."""
        while self._waiting and self._n_out < self.limit:
            slot = self._waiting.popleft()
            if not slot.done():
                self._n_out += 1
                slot.set_result(None)


LOG = logging.getLogger("parley.endpoint")
_SEVERAL_REQUESTS = 3


class OutageWatch:
    """Outage watch of one endpoint. It belongs to one event loop.

    The watch has three states:

    - Answering: `is_down` is false. Consecutive faults are counted, and many set `is_suspect`.
    - Waiting: the endpoint is down. Requests wait in `wait`, and after growing pauses one of them
      is sent as the probe.
    - Given up: patience is over. Requests fail immediately, but after each pause one is sent, so
      that a late return is noticed.
    """

    def __init__(self, url: str, policy: OutagePolicy) -> None:
        self.is_down = self.is_suspect = False
        self.n_faults = 0
        self.policy, self._url = policy, url
        self._askers: set[int] = set()
        self._since_s = 0.0
        self._since, self._last_fault = "", ""
        self._has_given_up = self._is_probe_due = False
        self._pause_s = policy.pause_s
        self._probe: asyncio.Task[object] | None = None
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def answered(self) -> None:
        """Record a response: an answer, a rejection of the request, or a 429 (come later)."""
        if self.is_down:
            LOG.warning(
                "Endpoint %s answers again after %.0f s", self._url, _now_s() - self._since_s
            )
        self.is_down = self.is_suspect = self._has_given_up = self._is_probe_due = False
        self.n_faults, self._probe = 0, None
        self._askers.clear()
        self.close()
        self._wake_all()

    def failed(self, text: str, *, has_status: bool) -> None:
        """Count a fault of the endpoint, in the task that sent the request.

        A request rejected with an HTTP status may itself be the cause. A request without a
        connection is not.
        """
        if not self.n_faults:
            self._since_s, self._since = _now_s(), f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        self.n_faults += 1
        self._last_fault = text
        self._askers.add(id(asyncio.current_task()))
        if self.is_down:
            if self.is_probe():
                self._probe = None
                self._arm_probe()
            return
        self.is_suspect = self.n_faults >= self.policy.faults and (
            not has_status or len(self._askers) >= _SEVERAL_REQUESTS
        )
        if self.is_suspect and _now_s() - self._since_s >= self.policy.silence_s:
            self._begin()

    def is_probe(self) -> bool:
        """Return True if the running task sends the probe."""
        return self._probe is not None and self._probe is asyncio.current_task()

    def abandoned(self) -> None:
        """Record that the running task was cancelled.

        If it was the probe, another waiting request becomes the probe.
        """
        if self.is_probe():
            self._probe = None
            self._release_one()

    async def wait(self) -> bool:
        """Wait until the caller may send: the endpoint is back, or the caller is the probe.

        Return False if the endpoint was given up.
        """
        while self.is_down:
            if self._is_probe_due or await self._next_change():
                self._is_probe_due, self._probe = False, asyncio.current_task()
                return True
            if self.is_down and self._has_given_up:
                return False
        return True

    async def _next_change(self) -> bool:
        """Wait until the outage's state changes. Return True if the caller is now the probe.

        The probe must send its request, or call `abandoned`.
        """
        if self._has_given_up:
            return False
        place: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.result():
                self._release_one()
            raise

    def describe(self, own_fault: str = "") -> str:
        """Describe the outage in one line: its beginning, the wait, and the fault.

        Args:
            own_fault: Last fault of the caller's request. Default: that of another request.
        """
        fault = own_fault or f"another request: {self._last_fault}"
        return (
            f"no answer since {self._since}, waited {_now_s() - self._since_s:.0f} s for it"
            f" ({fault})"
        )

    def close(self) -> None:
        """Stop the timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _begin(self) -> None:
        self.is_down, self._probe, self._pause_s = True, None, self.policy.pause_s
        LOG.warning(
            "Endpoint %s has not answered since %s (%s). Waiting up to %g s for it",
            self._url, self._since, self._last_fault, self.policy.patience_s,
        )  # fmt: skip
        self._timers["patience"] = asyncio.get_running_loop().call_later(
            self.policy.patience_s, self._give_up
        )
        self._arm_probe()

    def _arm_probe(self) -> None:
        self._timers["probe"] = asyncio.get_running_loop().call_later(
            self._pause_s, self._release_one
        )
        self._pause_s = min(2 * self._pause_s, self.policy.max_pause_s)

    def _release_one(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(True)
                return
        self._is_probe_due = True

    def _give_up(self) -> None:
        self._has_given_up = True
        LOG.warning(
            "Endpoint %s did not return within %g s. Its episodes stay pending",
            self._url,
            self.policy.patience_s,
        )
        self._wake_all()

    def _wake_all(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(False)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
