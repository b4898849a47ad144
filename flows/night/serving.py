"""Hours of model servers that Parley starts, charged to the runs that use them.

The hours become rows of the table `served_hours`.

At each moment, the roles of the runs that use a server share its time equally. If no run uses it,
its last users are charged until another run takes it. A row without hours is written when a run
takes a server, so that the hours of a killed night count as unknown.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.night.cost import sum_usd_hourly
from schemas.night.serving import ServedHours
from schemas.run import ModelIdentity
from tasks.planning.participants.models import role_cost
from tasks.planning.plan import RunPlan
from tasks.planning.request import ModelRequest


class Holder(NamedTuple):
    """Role of a run (subject, simulator, judge) whose model a server serves."""

    run_id: str
    role: str
    identity: ModelIdentity


@dataclass
class _Server:
    since_s: float
    holders: set[Holder] = field(default_factory=set[Holder])
    is_held: bool = True


class Serving:
    """Usage of one night's servers, in the memory of the driver. The class is thread-safe."""

    def __init__(self, night_id: str) -> None:
        self._night_id = night_id
        self._servers: dict[ModelIdentity, _Server] = {}
        self._seconds: defaultdict[Holder, float] = defaultdict(float)
        self._usages: dict[Holder, tuple[RunPlan, ModelRequest]] = {}
        self._lock = threading.RLock()

    def take(self, plan: RunPlan, identities: Iterable[ModelIdentity]) -> None:
        """Record that a run begins to use servers. They may still be starting."""
        with self._lock:
            requests = {identity: request for identity, _, request in plan.models}
            for identity in identities:
                new = {Holder(plan.run_id, role, identity) for role in _roles(plan, identity)}
                server = self._servers.setdefault(identity, _Server(time.monotonic()))
                self._settle(server)
                for run_id in (
                    set() if server.is_held else {holder.run_id for holder in server.holders}
                ):
                    self._keep(run_id, is_known=True)
                server.holders = server.holders | new if server.is_held else new
                server.is_held = True
                for holder in new - self._usages.keys():
                    self._usages[holder] = plan, requests[identity]
            self._keep(plan.run_id)

    def release(self, run_id: str, identities: Collection[ModelIdentity] | None = None) -> None:
        """Record that a run no longer uses the servers of these models.

        If `identities` is None, the run has ended and uses no server any more.
        """
        with self._lock:
            for identity, server in self._servers.items():
                if identities is not None and identity not in identities:
                    continue
                self._settle(server)
                others = {holder for holder in server.holders if holder.run_id != run_id}
                server.is_held = bool(others) and server.is_held
                server.holders = others or server.holders
            self._keep(run_id, is_known=True)

    def end(self, identity: ModelIdentity) -> None:
        """Record that a server has ended."""
        with self._lock:
            server = self._servers.pop(identity, None)
            if server is not None:
                self._settle(server)
                for run_id in {holder.run_id for holder in server.holders}:
                    self._keep(run_id, is_known=True)

    def usd_hourly(self, run_id: str) -> float | None:
        """Return the cost of a run's servers this night. Call it after they have ended.

        Return None if a price is unknown or the run used no server.
        """
        with self._lock:
            held = [
                (holder, *usage)
                for holder, usage in self._usages.items()
                if holder.run_id == run_id
            ]
            return sum_usd_hourly(
                role_cost(plan, holder.identity, request, hours=self._seconds[holder] / 3600)
                for holder, plan, request in held
            )

    def _settle(self, server: _Server) -> None:
        now = time.monotonic()
        for holder in server.holders:
            self._seconds[holder] += (now - server.since_s) / len(server.holders)
        server.since_s = now

    def _keep(self, run_id: str, *, is_known: bool = False) -> None:
        held = [
            (holder, *usage) for holder, usage in self._usages.items() if holder.run_id == run_id
        ]
        if not held:
            return
        plan = held[0][1]
        rows = [
            ServedHours(
                night_id=self._night_id,
                run_id=run_id,
                benchmark=plan.spec.benchmark,
                model=plan.spec.label,
                role=holder.role,
                role_model=holder.identity.label,
                hours=self._seconds[holder] / 3600 if is_known else None,
                gpus=request.n_gpus,
            )
            for holder, _, request in held
        ]
        plan.lake.write_part("served_hours", rows, self._night_id, **plan.keys)


def _roles(plan: RunPlan, identity: ModelIdentity) -> set[str]:
    spec = plan.spec
    played = {
        ("subject", spec.subject),
        ("simulator", spec.simulator),
        *(("judge", seat.judge) for seat in spec.judges),
    }
    return {role for role, model in played if model == identity}
