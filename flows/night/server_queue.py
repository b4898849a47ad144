"""Queue of the runs of a night that need model servers: who may start servers on which devices, and which idle ones end first.

A run asks for all servers of a stage at once and holds none while it waits, so no two runs wait for each other. Dialogues go
before judgements, so that a judge's server is loaded once for many checkpoints. Of these, the servers that need most devices go
first, and the others fill the gaps.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property

from schemas.errors import ConfigError
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.driver.gpus import Demand, Occupied, demand_of, placed
from tasks.planning.request import ModelRequest

KEEP_IDLE_S = 5.0
"""An idle server that another run of the night will use is ended for other servers after this time."""
SETTLE_S = 10.0
"""Time for which a run with narrow servers waits for one that needs more devices and prepares: loading takes far longer."""


@dataclass(eq=False)
class Server:
    """The server of one model, with its replicas, from the decision to start it until it has ended."""

    identity: ModelIdentity
    asked: ModelRequest
    devices: tuple[str, ...]
    resources: ExitStack = field(default_factory=ExitStack)
    """Ends the server."""
    place: ModelEndpoint | None = None
    """None while the server starts."""
    users: set[str] = field(default_factory=set[str])
    """Ids of the runs that use the server now."""
    idle_since_s: float = 0.0
    is_ending: bool = False

    @property
    def is_up(self) -> bool:
        """Whether a run may use the server."""
        return self.place is not None and not self.is_ending

    @property
    def occupied(self) -> Occupied:
        """Devices that the server holds."""
        return Occupied(self.demand, self.devices, self.place is None)

    @cached_property
    def demand(self) -> Demand:
        """What the server needs."""
        return demand_of(self.asked)


@dataclass(eq=False)
class Claim:
    """A run's wish for servers, all at once."""

    user: str
    wanted: Mapping[ModelIdentity, ModelRequest]
    is_later: bool
    """Whether it is for judgements alone."""
    number: int
    asked_at_s: float = field(default_factory=time.monotonic)
    n_overtaken: int = 0

    @cached_property
    def demands(self) -> dict[ModelIdentity, Demand]:
        """What each server needs."""
        return {identity: demand_of(asked) for identity, asked in self.wanted.items()}

    @cached_property
    def width(self) -> int:
        """Devices of all servers together."""
        return sum(demand.width for demand in self.demands.values())

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The least goes first."""
        return self.is_later, -self.width, self.number


@dataclass(frozen=True)
class Grant:
    """What a run has to do before it may use its servers."""

    to_end: Sequence[Server] = ()
    to_start: Sequence[Server] = ()


class ServerQueue:
    """The servers that hold devices, and the runs that wait for servers. To be used under one lock.

    Args:
        pool: returns the devices for `devices: auto`.
    """

    def __init__(self, pool: Callable[[], Sequence[str]]) -> None:
        self._pool = pool
        self.servers: dict[ModelIdentity, Server] = {}
        self.needed: dict[str, set[ModelIdentity]] = {}
        """Run -> the models of ours that the run uses or will use."""
        self.upcoming: dict[str, Mapping[ModelIdentity, Demand]] = {}
        """Run that has asked for no server yet -> what the servers of its dialogues need."""
        self.waiting: list[Claim] = []

    def is_needed(self, server: Server) -> bool:
        """Whether a run uses the server or will use it."""
        return bool(server.users) or any(
            server.identity in models for models in self.needed.values()
        )

    def fits(self, demands: Mapping[ModelIdentity, Demand]) -> bool:
        """Whether servers could be up together, were all others ended."""
        return placed(self._pool_for(demands), demands, ()) is not None

    def require_fit(self, claim: Claim) -> None:
        """Refuse what no waiting would bring about.

        Raises:
            ConfigError: names the demand and the devices.
        """
        if not self.fits(claim.demands):
            names, n = (
                ", ".join(identity.label for identity in claim.wanted),
                len([one for one in self._pool() if one]),
            )
            raise ConfigError(
                f"the servers of {names} need {claim.width} devices together, and `devices: auto` finds {n} on this machine."
                " Lower replicas, tensor_parallel or memory_share, or name the devices: PARLEY_DEVICES=0,1,2"
            )

    def granted(self, claim: Claim, dead: Collection[Server] = ()) -> Grant | None:
        """Let the run have its servers if that can be now; None where it has to wait.

        Args:
            dead: servers that no longer answer. They start again on their devices.
        """
        there = [server for identity in claim.wanted if (server := self.servers.get(identity))]
        if any(not server.is_up for server in there):
            return None  # another run starts or ends it
        alive = [server for server in there if server not in dead]
        grant = self._room(claim, there) if len(there) < len(claim.wanted) else Grant()
        if grant is None:
            return None
        for server in alive:
            server.users.add(claim.user)
        again = [self._replace(server, claim.user) for server in there if server not in alive]
        for server in grant.to_start:
            self.servers[server.identity] = server
        for server in grant.to_end:
            server.is_ending = True
        return Grant(
            (*grant.to_end, *(server for server in there if server in dead)),
            (*again, *grant.to_start),
        )

    def _replace(self, dead: Server, user: str) -> Server:
        new = Server(dead.identity, dead.asked, dead.devices, users={*dead.users, user})
        self.servers[dead.identity] = new
        return new

    def _room(self, claim: Claim, there: Sequence[Server]) -> Grant | None:
        """Find room for servers that are not up, where it is the run's turn."""
        before = [other for other in self.waiting if other is not claim and other.rank < claim.rank]
        pool = self._pool_for(claim.demands)
        if any(other.n_overtaken >= max(len(pool), 8) for other in before) or self._is_early(claim):
            return None
        missing = {
            identity: demand
            for identity, demand in claim.demands.items()
            if identity not in self.servers
        }
        mates = [server.occupied for server in there]
        others = [server for server in self.servers.values() if server not in there]
        idle = sorted(
            filter(self._may_end, others),
            key=lambda server: (self.is_needed(server), server.idle_since_s),
        )
        ended: list[Server] = []
        devices = placed(pool, missing, [server.occupied for server in others], mates)
        while devices is None and idle:
            ended.append(idle.pop(0))
            devices = placed(
                pool, missing, [server.occupied for server in others if server not in ended], mates
            )
        if devices is None:
            return None
        for server in tuple(ended):  # one of them alone may have been in the way
            kept = [one.occupied for one in others if one is server or one not in ended]
            if (found := placed(pool, missing, kept, mates)) is not None:
                devices = found
                ended.remove(server)
        if claim.width:
            for other in before:
                other.n_overtaken += 1
        started = [
            Server(identity, claim.wanted[identity], devices[identity], users={claim.user})
            for identity in missing
        ]
        return Grant(ended, started)

    def _is_early(self, claim: Claim) -> bool:
        """Whether a run that needs more devices at once is about to ask."""
        if not claim.width or time.monotonic() - claim.asked_at_s >= SETTLE_S:
            return False
        starting = (
            demands for demands in self.upcoming.values() if demands.keys() - self.servers.keys()
        )
        return any(
            sum(demand.width for demand in demands.values()) > claim.width for demands in starting
        )

    def _may_end(self, server: Server) -> bool:
        idle_s = time.monotonic() - server.idle_since_s
        return (
            server.is_up
            and not server.users
            and (idle_s >= KEEP_IDLE_S or not self.is_needed(server))
        )

    def _pool_for(self, demands: Mapping[ModelIdentity, Demand]) -> Sequence[str]:
        return self._pool() if any(demand.is_auto for demand in demands.values()) else ()
