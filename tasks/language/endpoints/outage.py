"""Watches whether an endpoint answers at all. During an outage its requests wait together; one at a time tries if it is back."""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime

LOG = logging.getLogger("parley.endpoint")
_SEVERAL_REQUESTS = 3


@dataclass(frozen=True)
class OutagePolicy:
    """When an endpoint counts as down, and how long requests wait for it. None of it can change an answer."""

    faults: int = 8
    """Faults in a row, of all requests together, ..."""
    silence_s: float = 5.0
    """... over at least this long, with no sign of life between them."""
    patience_s: float = 300.0
    """How long all requests wait for it to come back; then they fail at once."""
    pause_s: float = 0.5
    """Before the first probe; doubles with each that fails."""
    max_pause_s: float = 15.0


class OutageWatch:
    """One endpoint's watch. Belongs to one event loop.

    Answering: `is_down` is false, and faults are counted until the next sign of life; `is_suspect` after many of them.
    Waiting: only faults came. Each request waits in `wait`, and after growing pauses one of them goes as the probe.
    Given up: patience is over. Requests fail at once, but after each pause one passes, so that a late return is seen.
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
        """A sign of life: any answer, a refusal of this very request, or a plea to come later (429)."""
        if self.is_down:
            LOG.warning(
                "endpoint %s answers again after %.0f s", self._url, _now_s() - self._since_s
            )
        self.is_down = self.is_suspect = self._has_given_up = self._is_probe_due = False
        self.n_faults, self._probe = 0, None
        self._askers.clear()
        self.close()
        self._wake_all()

    def failed(self, said: str, *, has_status: bool) -> None:
        """Count a fault of the endpoint, in the task that asked.

        A request refused by HTTP status may itself be the cause; a request without a connection is not.
        """
        if not self.n_faults:
            self._since_s, self._since = _now_s(), f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        self.n_faults += 1
        self._last_fault = said
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
        """Whether the running task is the one that asks for all."""
        return self._probe is not None and self._probe is asyncio.current_task()

    def abandoned(self) -> None:
        """Tell that the running task was cancelled. If it was the probe, another takes its place."""
        if self.is_probe():
            self._probe = None
            self._release_one()

    async def wait(self) -> bool:
        """True when the caller may ask: the endpoint is back, or the caller is the probe. False where it was given up."""
        while self.is_down:
            if self._is_probe_due or await self._next_change():
                self._is_probe_due, self._probe = False, asyncio.current_task()
                return True
            if self.is_down and self._has_given_up:
                return False
        return True

    async def _next_change(self) -> bool:
        """Whether the caller was chosen as the probe; it then has to ask, or to call `abandoned`."""
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
            own_fault: the last fault of the request that asks; without it the endpoint's last one, of another request.
        """
        fault = own_fault or f"another request: {self._last_fault}"
        return f"no answer since {self._since}, waited {_now_s() - self._since_s:.0f} s for it ({fault})"

    def close(self) -> None:
        """Stop its timer."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _begin(self) -> None:
        self.is_down, self._probe, self._pause_s = True, None, self.policy.pause_s
        LOG.warning(
            "endpoint %s does not answer since %s (%s): waiting up to %g s for it",
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
            "endpoint %s did not come back within %g s: its episodes stay owed",
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
