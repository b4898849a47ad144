"""Adaptive concurrency: additive increase, multiplicative decrease (as TCP's congestion window), up to what the user grants."""

import asyncio
import contextlib
from collections import deque

_MEMORY = 64
"""Requests over which the share of overloads is taken."""


class AdaptiveLimit:
    """How many requests may be out at once. Belongs to one event loop.

    It starts at the concurrency that the user grants. An overload (429, 5xx, timeout) lowers the limit, once for all
    requests that were out at that moment; each limit's worth of answers raises it by a thirty-second of it.

    The share of overloads among the latest requests decides how far it falls (as in data centre TCP): by half where all were
    overloads, by little where few were. So it settles just below an endpoint's capacity instead of swinging between it and its
    half, and an endpoint that fails one request in a hundred for reasons of its own still gets most of its concurrency.
    """

    def __init__(self, concurrency: int, *, floor: int = 1, decrease: float = 0.5) -> None:
        """`concurrency` >= `floor` >= 1 requests. The limit is multiplied by `decrease` (0 to 1) where all are overloads."""
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
        """Grant more or less from now on (`floor` and up). All that was learnt about the endpoint stays."""
        if concurrency == self.concurrency:
            return
        is_open = self._window >= self.concurrency
        self.concurrency, self._step = concurrency, max(1.0, concurrency / 32)
        self._window = float(concurrency) if is_open else min(self._window, float(concurrency))
        self._wake()

    @property
    def limit(self) -> int:
        """Requests that may be out at once now, from `floor` to `concurrency`."""
        return int(self._window)

    async def acquire(self, *, again: bool = False) -> int:
        """Wait for a place; a request that is sent `again` goes first. Returns a ticket for `succeeded` and `overloaded`."""
        if self._n_out >= self.limit or self._waiting:
            await self._queue(again)
        else:
            self._n_out += 1
        return self._era

    async def _queue(self, again: bool) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if again else self._waiting.append)(place)
        self._wake()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.release()
            else:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(place)
            raise

    def release(self) -> None:
        """Give a place back, after the answer or the fault."""
        self._n_out -= 1
        self._wake()

    def succeeded(self, ticket: int) -> None:
        """An answer came. Answers to requests older than the last decrease tell nothing about the limit now."""
        self._learn(0.0)
        if ticket == self._era and self._window < self.concurrency:
            self._window = min(float(self.concurrency), self._window + self._step / self._window)
            self._wake()

    def overloaded(self, ticket: int) -> None:
        """The endpoint was too busy."""
        self._learn(1.0)
        if ticket == self._era:
            self._era, self._before = self._era + 1, self._window
        if ticket == self._era - 1:
            kept = 1 - (1 - self._decrease) * self._overload_share
            self._window = max(float(self.floor), min(self._window, self._before * kept))

    def _learn(self, overload: float) -> None:
        """The share of overloads among the latest requests: a plain mean at first, then one that forgets."""
        self._n_known = min(self._n_known + 1, _MEMORY)
        self._overload_share += (overload - self._overload_share) / self._n_known

    def _wake(self) -> None:
        """Hands free places to those waiting; the place is theirs from here on."""
        while self._waiting and self._n_out < self.limit:
            place = self._waiting.popleft()
            if not place.done():
                self._n_out += 1
                place.set_result(None)
