"""Queue of runs that need model servers: who starts servers next, and which idle servers end.

A run requests the servers of a stage together and holds none while it waits, so no two runs wait
for each other. Dialogues come before judgements, so that a judge's server is loaded once for many
checkpoints. Among dialogues, the servers that need most devices come first, and the others fill the
gaps.

A server with `devices: auto` takes any devices with enough memory. A server with named devices
takes these. A server without either setting reserves the whole machine for itself and for the other
servers of the same run.
"""

import os
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TypeVar

from schemas.errors import ConfigError
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.providers.registry import provider_of
from tasks.language.servers.vllm_settings import AUTO, VllmSettings
from tasks.planning.request import ModelRequest

VARIABLE = "PARLEY_DEVICES"
"""Environment variable with the devices that `devices: auto` may use, separated by commas."""
_ROUNDING = 1e-9
_Name = TypeVar("_Name")
_LIST_S = 30.0


@dataclass(frozen=True)
class Demand:
    """Demand of one model's servers: the number of devices, or named ones."""

    width: int
    """Number of devices of all replicas. 0 for a server that needs none."""
    share: float = 1.0
    """Share of each device's memory."""
    named: tuple[str, ...] = ()
    is_auto: bool = False

    @property
    def is_whole(self) -> bool:
        """Return True if the server reserves the whole machine."""
        return bool(self.width) and not self.named and not self.is_auto


@dataclass(frozen=True)
class Occupied:
    """Devices that a running server occupies."""

    demand: Demand
    devices: tuple[str, ...]
    is_starting: bool = False
    """True while the server starts.

    vLLM then measures free memory, so no other server may start on these devices.
    """


def demand_of(request: ModelRequest) -> Demand:
    """Return the devices that the servers of a model need."""
    provider = provider_of(request.spec)
    if provider is None or not provider.takes_serve_settings:
        return Demand(0)
    settings = request.serve or VllmSettings()
    named = () if settings.devices == AUTO else settings.devices
    width = settings.replicas * settings.tensor_parallel
    return Demand(width, settings.memory_share or 1.0, named, settings.devices == AUTO)


@cache
def machine_devices() -> tuple[str, ...]:
    """Return the devices for `devices: auto`.

    They are listed in PARLEY_DEVICES, else in CUDA_VISIBLE_DEVICES, else by nvidia-smi. A machine
    without GPUs has one device without a name, which CPU servers can share by `memory_share`.
    """
    for variable in (VARIABLE, "CUDA_VISIBLE_DEVICES"):
        if listed := os.environ.get(variable):
            return tuple(name.strip() for name in listed.split(",") if name.strip())
    program = shutil.which("nvidia-smi")
    if program is not None:
        with suppress(OSError, subprocess.TimeoutExpired):
            process = subprocess.run(
                [program, "--query-gpu=index", "--format=csv,noheader"],
                capture_output=True,
                text=True,
                timeout=_LIST_S,
                check=False,
            )
            if process.returncode == 0 and (listed := process.stdout.split()):
                return tuple(listed)
    return ("",)


def placed(
    pool: Sequence[str],
    demands: Mapping[_Name, Demand],
    beside: Sequence[Occupied],
    mates: Sequence[Occupied] = (),
) -> Mapping[_Name, tuple[str, ...]] | None:
    """Return devices for servers that start together, or None if there is no room for all.

    Args:
        pool: Devices that `auto` may use.
        demands: Demand of each server, by name.
        beside: Running servers that continue to run.
        mates: Running servers of the same run. A server with named devices may share devices with
            them.
    """
    others = [server for server in beside if server.demand.width]
    asking = [demand for demand in demands.values() if demand.width]
    if (
        asking
        and others
        and any(demand.is_whole for demand in (*asking, *(server.demand for server in others)))
    ):
        return None
    load = _load(others)
    for demand in demands.values():
        if any(load[device] + demand.share > 1 + _ROUNDING for device in demand.named):
            return None
    for device, share in _load(mates).items():
        load[device] += share
    devices_of: dict[_Name, tuple[str, ...]] = {}
    for name, demand in sorted(demands.items(), key=lambda item: (item[1].is_auto, -item[1].width)):
        devices = _fullest(pool, load, demand) if demand.is_auto else demand.named
        if devices is None:
            return None
        # vLLM itself takes the first ones.
        for device in pool[: demand.width] if demand.is_whole else devices:
            load[device] += demand.share
        devices_of[name] = devices
    return devices_of


def _load(servers: Sequence[Occupied]) -> defaultdict[str, float]:
    load: defaultdict[str, float] = defaultdict(float)
    for server in servers:
        for device in server.devices:
            load[device] += 1.0 if server.is_starting else server.demand.share
    return load


def _fullest(
    pool: Sequence[str], load: Mapping[str, float], demand: Demand
) -> tuple[str, ...] | None:
    """Return the fullest devices with enough room, so that empty devices stay free for others."""
    with_room = [device for device in pool if load.get(device, 0.0) + demand.share <= 1 + _ROUNDING]
    with_room.sort(key=lambda device: -load.get(device, 0.0))
    return tuple(with_room[: demand.width]) if len(with_room) >= demand.width else None


KEEP_IDLE_S = 5.0
"""Idle time in seconds after which a server may be ended to free its devices for other servers.

A server that no run will use may be ended without delay.
"""
SETTLE_S = 10.0
"""Maximum seconds for which a run yields to a run that needs more devices and is being prepared.

Loading a model takes far longer.
"""


@dataclass(eq=False)
class Server:
    """Server of one model, with its replicas, from the decision to start it until it has ended."""

    identity: ModelIdentity
    request: ModelRequest
    devices: tuple[str, ...]
    resources: ExitStack = field(default_factory=ExitStack)
    """Exit stack that ends the server."""
    place: ModelEndpoint | None = None
    """Endpoint of the server. None while it starts."""
    users: set[str] = field(default_factory=set[str])
    """Ids of the runs that use the server now."""
    idle_since_s: float = 0.0
    is_ending: bool = False

    @property
    def is_up(self) -> bool:
        """Return True if a run may use the server."""
        return self.place is not None and not self.is_ending

    @property
    def occupied(self) -> Occupied:
        """Return the devices that the server holds."""
        return Occupied(self.demand, self.devices, self.place is None)

    @cached_property
    def demand(self) -> Demand:
        """Return the devices that the server needs."""
        return demand_of(self.request)


@dataclass(eq=False)
class Claim:
    """Request of one run for several servers, which are granted together."""

    user: str
    wanted: Mapping[ModelIdentity, ModelRequest]
    is_later: bool
    """True if the run needs the servers for judgements only."""
    number: int
    asked_at_s: float = field(default_factory=time.monotonic)
    n_overtaken: int = 0

    @cached_property
    def demands(self) -> dict[ModelIdentity, Demand]:
        """Return the devices that each server needs."""
        return {identity: demand_of(request) for identity, request in self.wanted.items()}

    @cached_property
    def width(self) -> int:
        """Return the number of devices of all servers together."""
        return sum(demand.width for demand in self.demands.values())

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Return the sort key of the queue. The smallest key comes first."""
        return self.is_later, -self.width, self.number


@dataclass(frozen=True)
class Grant:
    """Permission to use servers: the servers that the run must first end, and then start."""

    to_end: Sequence[Server] = ()
    to_start: Sequence[Server] = ()


class ServerQueue:
    """Servers that hold devices, and the runs that wait for servers.

    The class is not thread-safe: callers must hold a common lock.

    Args:
        pool: Returns the devices for `devices: auto`.
    """

    def __init__(self, pool: Callable[[], Sequence[str]]) -> None:
        self._pool = pool
        self.servers: dict[ModelIdentity, Server] = {}
        self.needed: dict[str, set[ModelIdentity]] = {}
        """Models that each run uses or will use and that Parley serves, by run id."""
        self.upcoming: dict[str, Mapping[ModelIdentity, Demand]] = {}
        """By run id: devices that each model server of the run's dialogues will need.

        The mapping contains only runs that have not requested a server yet.
        """
        self.waiting: list[Claim] = []

    def is_needed(self, server: Server) -> bool:
        """Return True if a run uses the server or will use it."""
        return bool(server.users) or any(
            server.identity in models for models in self.needed.values()
        )

    def fits(self, demands: Mapping[ModelIdentity, Demand]) -> bool:
        """Return True if servers with these demands could run together, without other servers."""
        return placed(self._pool_for(demands), demands, ()) is not None

    def require_fit(self, claim: Claim) -> None:
        """Reject a claim that can never be granted.

        Raises:
            ConfigError: The message names the demand and the devices.
        """
        if not self.fits(claim.demands):
            names, n = (
                ", ".join(identity.label for identity in claim.wanted),
                len([device for device in self._pool() if device]),
            )
            raise ConfigError(
                f"the servers of {names} need {claim.width} devices together, but `devices: auto`"
                f" found {n} on this machine. Lower replicas, tensor_parallel or memory_share,"
                " or name the devices, such as PARLEY_DEVICES=0,1,2"
            )

    def granted(self, claim: Claim, dead: Collection[Server] = ()) -> Grant | None:
        """Grant the claim if it can be granted now. Return None if the run has to wait.

        Args:
            claim: The run's request.
            dead: Servers that no longer answer. They start again on their devices.
        """
        running = [server for identity in claim.wanted if (server := self.servers.get(identity))]
        if any(not server.is_up for server in running):
            return None  # Another run is starting or ending the server.
        alive = [server for server in running if server not in dead]
        grant = self._room(claim, running) if len(running) < len(claim.wanted) else Grant()
        if grant is None:
            return None
        for server in alive:
            server.users.add(claim.user)
        again = [self._replace(server, claim.user) for server in running if server not in alive]
        for server in grant.to_start:
            self.servers[server.identity] = server
        for server in grant.to_end:
            server.is_ending = True
        return Grant(
            (*grant.to_end, *(server for server in running if server in dead)),
            (*again, *grant.to_start),
        )

    def _replace(self, dead: Server, user: str) -> Server:
        new = Server(dead.identity, dead.request, dead.devices, users={*dead.users, user})
        self.servers[dead.identity] = new
        return new

    def _room(self, claim: Claim, there: Sequence[Server]) -> Grant | None:
        """Find devices for the claim's missing servers; None if the claim has to wait."""
        before = [other for other in self.waiting if other is not claim and other.rank < claim.rank]
        pool = self._pool_for(claim.demands)
        if any(other.n_overtaken >= max(len(pool), 8) for other in before) or self._should_yield(
            claim
        ):
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
        # Take servers off the list that need not end: ending one of the others may be enough.
        for server in tuple(ended):
            remaining = [
                other.occupied for other in others if other is server or other not in ended
            ]
            if (placement := placed(pool, missing, remaining, mates)) is not None:
                devices = placement
                ended.remove(server)
        if claim.width:
            for other in before:
                other.n_overtaken += 1
        started = [
            Server(identity, claim.wanted[identity], devices[identity], users={claim.user})
            for identity in missing
        ]
        return Grant(ended, started)

    def _should_yield(self, claim: Claim) -> bool:
        """Return True if a run that needs more devices is about to request its servers."""
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
