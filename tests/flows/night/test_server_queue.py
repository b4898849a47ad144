"""Order in which runs get devices: checked by whole nights in simulated time, with random durations
and orders.
"""

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from flows.night import server_queue
from flows.night.server_queue import (
    KEEP_IDLE_S,
    SETTLE_S,
    Claim,
    Demand,
    Server,
    ServerQueue,
    demand_of,
)
from schemas.errors import ConfigError
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.servers.vllm_settings import VllmSettings
from tasks.planning.request import ModelRequest

POOL = tuple("01234567")
UP = ModelEndpoint(base_url="http://127.0.0.1:1/v1")


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(server_queue, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


def model(name: str, width: int = 1, **settings: object) -> tuple[ModelIdentity, ModelRequest]:
    serve = VllmSettings.model_validate({"devices": "auto", "tensor_parallel": width} | settings)
    return ModelIdentity(provider="vllm", name=name, revision="1"), ModelRequest(
        spec=f"vllm:tests/{name}", serve=serve
    )


def demands(*models: tuple[ModelIdentity, ModelRequest]) -> dict[ModelIdentity, Demand]:
    return {identity: demand_of(asked) for identity, asked in models}


def ask(
    queue: ServerQueue,
    clock: Clock,
    user: str,
    *models: tuple[ModelIdentity, ModelRequest],
    is_later: bool = False,
) -> Claim:
    claim = Claim(user, dict(models), is_later, len(queue.waiting), clock.now_s)
    queue.upcoming.pop(user, None)
    queue.waiting.append(claim)
    return claim


def served(queue: ServerQueue, claim: Claim) -> list[Server] | None:
    """Start the servers of a run where it may be; returns those that were ended for it, None where
    it has to wait.
    """
    grant = queue.granted(claim)
    if grant is None:
        return None
    queue.waiting.remove(claim)
    for server in grant.to_end:
        del queue.servers[server.identity]
    for server in grant.to_start:
        server.place = UP
    return list(grant.to_end)


def leave(queue: ServerQueue, clock: Clock, user: str) -> None:
    for server in queue.servers.values():
        if user in server.users:
            server.users.discard(user)
            server.idle_since_s = clock.now_s


def test_an_idle_server_that_is_needed_again_is_ended_only_after_a_while(clock: Clock) -> None:
    queue, one, other = ServerQueue(lambda: ("0",)), model("one"), model("other")
    queue.needed = {"a": set(demands(one)), "b": set(demands(other))}
    assert served(queue, ask(queue, clock, "a", one)) == []
    waiting = ask(queue, clock, "b", other)
    assert served(queue, waiting) is None, "its device is in use"
    leave(queue, clock, "a")
    assert served(queue, waiting) is None
    clock.now_s += KEEP_IDLE_S
    ended = served(queue, waiting)
    assert ended is not None
    assert [server.identity for server in ended] == [one[0]]


def test_no_more_servers_are_ended_than_are_in_the_way(clock: Clock) -> None:
    queue, models = ServerQueue(lambda: POOL), [model(name, 2) for name in "abcd"]
    for one in models:
        served(queue, ask(queue, clock, one[0].name, one))
        leave(queue, clock, one[0].name)
        clock.now_s += 1
    ended = served(queue, ask(queue, clock, "new", model("new", 4)))
    assert ended is not None
    assert [server.identity.name for server in ended] == ["a", "b"]


def test_dialogues_go_before_judgements_but_a_server_that_is_up_keeps_nobody_waiting(
    clock: Clock,
) -> None:
    queue, judge, subject = ServerQueue(lambda: ("0",)), model("judge"), model("subject")
    assert served(queue, ask(queue, clock, "first", judge)) == []
    judging, playing = (
        ask(queue, clock, "judged", judge, is_later=True),
        ask(queue, clock, "played", subject),
    )
    assert served(queue, judging) == []
    assert served(queue, playing) is None
    leave(queue, clock, "first")
    leave(queue, clock, "judged")
    judged_later = ask(queue, clock, "later", model("another judge"), is_later=True)
    playing.n_overtaken = 8
    assert served(queue, judged_later) is None
    assert served(queue, playing) is not None


def test_a_run_waits_for_one_that_needs_more_devices_and_prepares_but_not_for_ever(
    clock: Clock,
) -> None:
    queue = ServerQueue(lambda: POOL)
    wide, narrow = model("wide", 8), model("narrow")
    queue.upcoming = {"wide": demands(wide)}
    early = ask(queue, clock, "narrow", narrow)
    assert served(queue, early) is None
    clock.now_s += SETTLE_S
    assert served(queue, early) == []


def test_a_demand_that_no_waiting_would_meet_is_refused(clock: Clock) -> None:
    queue = ServerQueue(lambda: POOL)
    with pytest.raises(ConfigError, match=r"need 9 devices together, but `devices: auto` found 8"):
        queue.require_fit(ask(queue, clock, "a", model("a", 8), model("b", 1)))


def test_a_server_that_starts_is_waited_for_and_one_that_died_starts_again_on_its_devices(
    clock: Clock,
) -> None:
    queue, one = ServerQueue(lambda: POOL), model("one", 2)
    queue.granted(ask(queue, clock, "a", one))
    second = ask(queue, clock, "b", one)
    assert queue.granted(second) is None
    (server,) = queue.servers.values()
    server.place = UP
    grant = queue.granted(second, [server])
    assert grant is not None
    assert list(grant.to_end) == [server]
    (again,) = grant.to_start
    assert (again.devices, again.users) == (server.devices, {"a", "b"})


@dataclass
class Night:
    """Simulated runs, each of one checkpoint: it loads, plays, and goes on with its programs."""

    clock: Clock
    runs: list[tuple[ModelIdentity, ModelRequest, float]]

    def share(self) -> float:
        """Share of the devices' time, until the last dialogue, in which a server loads or plays."""
        queue, began_s, busy_s = ServerQueue(lambda: POOL), self.clock.now_s, 0.0
        queue.needed = {name.name: set(demands((name, asked))) for name, asked, _ in self.runs}
        queue.upcoming = {name.name: demands((name, asked)) for name, asked, _ in self.runs}
        ends: list[tuple[float, str]] = []
        arriving = [(began_s + 0.1 * n, run) for n, run in enumerate(self.runs)]
        waiting: list[tuple[Claim, float]] = []
        while arriving or waiting or ends:
            while arriving and arriving[0][0] <= self.clock.now_s:
                _, (name, asked, seconds) = arriving.pop(0)
                waiting.append((ask(queue, self.clock, name.name, (name, asked)), seconds))
            for claim, seconds in tuple(waiting):
                if served(queue, claim) is not None:
                    waiting.remove((claim, seconds))
                    heapq.heappush(ends, (self.clock.now_s + seconds, claim.user))
                    busy_s += claim.width * seconds
            is_settled = ends and not arriving and self.clock.now_s > began_s + 2 * SETTLE_S
            self.clock.now_s = ends[0][0] if is_settled else self.clock.now_s + 1
            while ends and ends[0][0] <= self.clock.now_s:
                self._over(queue, heapq.heappop(ends)[1])
        return busy_s / (len(POOL) * (self.clock.now_s - began_s))

    def _over(self, queue: ServerQueue, user: str) -> None:
        queue.needed.pop(user)
        for server in tuple(queue.servers.values()):
            if user in server.users:
                del queue.servers[server.identity]


def orders(n_wide: int, n: int = 16) -> Iterator[list[tuple[ModelIdentity, ModelRequest, float]]]:
    """Nights of `n` checkpoints in random orders, some over four devices: 40 to 130 s to load, 60
    to 120 s to play.
    """
    drawn = random.Random(n_wide)
    for _ in range(3):
        widths = [4] * n_wide + [1] * (n - n_wide)
        drawn.shuffle(widths)
        loads = [
            drawn.uniform(90, 130) if width == 4 else drawn.uniform(40, 60) for width in widths
        ]
        seconds = [load + drawn.uniform(60, 120) for load in loads]
        yield [(*model(f"step-{i}", widths[i]), seconds[i]) for i in range(n)]


@pytest.mark.parametrize("n_wide", [4, 6, 8])
def test_sixteen_checkpoints_keep_eight_devices_busy(clock: Clock, n_wide: int) -> None:
    shares = [Night(clock, runs).share() for runs in orders(n_wide)]
    print(
        f"{n_wide} checkpoints of 16 over four devices: "
        f"{', '.join(f'{share:.3f}' for share in shares)} of the devices' time"
    )
    assert min(shares) >= 0.85, shares
