"""Outage watch of an endpoint.

During an outage requests wait together, and one at a time is a probe.
"""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

LOG = logging.getLogger("parley.endpoint")
_SEVERAL_REQUESTS = 3


@dataclass(frozen=True)
class OutagePolicy:
    """Rules that say when an endpoint counts as down, and how long requests wait for it.

    They cannot change an answer.
    """

    faults: int = 8
    """Number of consecutive faults, of all requests together, that can start an outage."""
    silence_s: float = 5.0
    """Minimum seconds without any response that `faults` faults must span to start an outage."""
    patience_s: float = 300.0
    """Seconds for which requests wait for the endpoint. After that, they fail immediately."""
    pause_s: float = 0.5
    """Seconds before the first probe. The pause doubles with each failed probe."""
    max_pause_s: float = 15.0


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


@dataclass(frozen=True)
class CallPolicy:
    """Limits and waits of calls to one endpoint. None of them can change an answer."""

    concurrency: int = 16
    """Maximum number of requests in flight in this process, 1 or more."""
    connect_s: float = 10.0
    timeout_s: float = 300.0
    """Time limit in seconds of one request, including the connection."""
    max_tries: int = 8
    """Maximum number of tries of one request.

    Tries during an outage of the endpoint do not count.
    """
    patience_s: float = 900.0
    """Seconds after the first try after which no new try starts.

    Waiting for the end of an outage does not count.
    """
    backoff_s: float = 0.5
    """Maximum wait in seconds before the second try. It doubles with each try (full jitter)."""
    max_backoff_s: float = 30.0
    max_retry_after_s: float = 120.0
    """Maximum seconds of a Retry-After. A longer one is cut to this."""
    check_served_model: bool = True
    outage: OutagePolicy = field(default_factory=OutagePolicy)
