"""Adaptive concurrency: additive increase, multiplicative decrease, up to the configured limit.

TCP's congestion window works the same way.
"""

import asyncio
import contextlib
from collections import deque

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

    def __init__(self, concurrency: int, *, floor: int = 1, decrease: float = 0.5) -> None:
        """Create a limit with `concurrency` >= `floor` >= 1.

        If all recent requests were overloads, the limit is multiplied by `decrease` (0 to 1).
        """
        if not 1 <= floor <= concurrency or not 0 < decrease < 1:
            raise ValueError(
                f"concurrency {concurrency}, floor {floor}, decrease {decrease}: "
                "needs 1 <= floor <= concurrency and 0 < decrease < 1"
            )
        self.concurrency, self.floor, self._decrease = concurrency, floor, decrease
        self._window, self._era, self._before = float(concurrency), 0, float(concurrency)
        self._step = max(1.0, concurrency / 32)
        self._overload_share, self._n_known = 0.0, 0
        self._n_out = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def grant(self, concurrency: int) -> None:
        """Change the configured concurrency (`floor` or more).

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
        """Return how many requests may be in flight now, from `floor` to `concurrency`."""
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
            factor = 1 - (1 - self._decrease) * self._overload_share
            self._window = max(float(self.floor), min(self._window, self._before * factor))

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
