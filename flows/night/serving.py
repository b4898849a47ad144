"""Hours of model servers that Parley starts, charged to the runs that use them.

The hours become rows of the table `served_hours`.

At each moment, the roles of the runs that use a server share its time equally. If no run uses it,
its last users are charged until another run takes it. A row without hours is written when a run
takes a server, so that the hours of a killed night count as unknown.

vLLM servers are also measured every half minute, for the table `serving`.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

from schemas.content_id import content_id
from schemas.errors import ParleyError
from schemas.lake.records import ServedHours, Serving, utc_now
from schemas.night.cost import sum_usd_hourly
from schemas.run import ModelIdentity
from tasks.language.servers.vllm_metrics import COUNTERS, NoMetrics, ServerMetrics, ask_metrics
from tasks.planning.participants.access import PlannedModel
from tasks.planning.participants.models import role_cost
from tasks.planning.plan import RunPlan
from tasks.storage.parquet_store import Lake


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


class ServerHours:
    """Usage of one night's servers, in the memory of the driver. The class is thread-safe."""

    def __init__(self, night_id: str) -> None:
        self._night_id = night_id
        self._servers: dict[ModelIdentity, _Server] = {}
        self._seconds: defaultdict[Holder, float] = defaultdict(float)
        self._usages: dict[Holder, tuple[RunPlan, PlannedModel]] = {}
        self._lock = threading.RLock()

    def take(self, plan: RunPlan, identities: Iterable[ModelIdentity]) -> None:
        """Record that a run begins to use servers. They may still be starting."""
        with self._lock:
            models = {model.identity: model for model in plan.models}
            for identity in identities:
                new = {
                    Holder(plan.run_id, model.role, identity)
                    for model in plan.models
                    if model.identity == identity
                }
                server = self._servers.setdefault(identity, _Server(time.monotonic()))
                self._settle(server)
                for run_id in (
                    set() if server.is_held else {holder.run_id for holder in server.holders}
                ):
                    self._keep(run_id, is_known=True)
                server.holders = server.holders | new if server.is_held else new
                server.is_held = True
                for holder in new - self._usages.keys():
                    self._usages[holder] = plan, models[identity]
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
                role_cost(plan.lake, model, hours=self._seconds[holder] / 3600)
                for holder, plan, model in held
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
                gpus=model.request.n_gpus,
            )
            for holder, _, model in held
        ]
        plan.lake.write_part("served_hours", rows, self._night_id, **plan.keys)


EVERY_S = 30.0
_LOG = logging.getLogger("parley.serving")


class ServingMeter:
    """Meter of one model's replicas while the block runs. A failed measurement stops no night.

    Args:
        urls: Base URL of each replica. The replicas have just been started.
    """

    def __init__(
        self,
        lake: Lake,
        night_id: str,
        model: str,
        served_name: str,
        urls: Sequence[str],
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._lake, self._night_id, self._model, self._served_name = (
            lake,
            night_id,
            model,
            served_name,
        )
        self._urls, self._every_s = tuple(urls), every_s
        self._part = content_id([model, served_name, utc_now(), list(urls)])
        self._rows: list[Serving] = []
        self._last: dict[str, tuple[ServerMetrics | None, float, str]] = {}
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._look_again, name="parley-serving", daemon=True)

    def __enter__(self) -> Self:
        for url in self._urls:
            self._last[url] = (_metrics_of(url), time.monotonic(), utc_now())
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if kind is None or issubclass(kind, Exception):  # A signal ends the night at once.
            self.look()

    def look(self) -> None:
        """Measure all replicas now, and write what they served since the last measurement."""
        with self._lock:
            new = [
                row
                for replica, url in enumerate(self._urls)
                if (row := self._row(replica, url)) is not None
            ]
            if not new:
                return
            self._rows += new
            try:
                self._lake.write_part("serving", self._rows, self._part, night_id=self._night_id)
            except (ParleyError, OSError) as error:
                _LOG.warning("the metrics of vLLM's servers cannot be stored: %s", error)

    def _look_again(self) -> None:
        while not self._over.wait(self._every_s):
            self.look()

    def _row(self, replica: int, url: str) -> Serving | None:
        """Return the requests and tokens that a replica served since the last measurement.

        Return None if the replica served nothing or does not answer.
        """
        now = _metrics_of(url)
        if now is None:
            return None
        before, then_s, then = self._last[url]
        here_s, here = time.monotonic(), utc_now()
        self._last[url] = (now, here_s, here)
        if before is None:
            return None
        is_restarted = any(now.counters[name] < before.counters[name] for name in COUNTERS)
        done = {
            name: n - (0 if is_restarted else before.counters[name])
            for name, n in now.counters.items()
        }
        if not any(done.values()) and not now.running and not now.waiting and not is_restarted:
            return None
        return Serving(
            night_id=self._night_id,
            model=self._model,
            served_name=self._served_name,
            replica=replica,
            from_at=then,
            to_at=here,
            seconds=max(here_s - then_s, 0.001),
            **done,
            running=now.running,
            waiting=now.waiting,
            kv_cache_share=now.kv_cache_share,
            is_restarted=is_restarted,
        )


def _metrics_of(url: str) -> ServerMetrics | None:
    try:
        return ask_metrics(url)
    except (OSError, NoMetrics, ValueError) as error:
        _LOG.info("no metrics of %s: %s", url, error)
        return None
