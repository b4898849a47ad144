"""Parley's own model servers in one night: started when a run first needs them, shared by runs, ended after their last use.

Servers of several models are up at once where their devices allow it (`flows.night.server_queue`). A server ends when no run of
the night uses it or will use it, while the run that used it last goes on with its programs and scores.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from socket import create_connection
from urllib.parse import urlsplit

from flows.night.server_queue import Claim, Grant, Server, ServerQueue
from flows.night.serving import Serving
from flows.night.spending import Spending
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.driver.gpus import demand_of, machine_devices
from tasks.driver.serving_meter import ServingMeter
from tasks.driver.signals import heed_signals
from tasks.language.providers.registry import is_served_here
from tasks.language.servers.vllm_settings import AUTO
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.plan import RunPlan
from tasks.planning.request import ModelRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake

_HEED_EVERY_S = 0.2
_LOG = logging.getLogger("parley.servers")


class ModelServers:
    """The servers that are up. Safe by threads.

    Args:
        resources: ends the servers with the night, at the latest.
        tell: gets what a server is at while it starts.
    """

    def __init__(
        self, home: Home, night_id: str, resources: ExitStack, tell: Callable[[str], None]
    ) -> None:
        self.hours = Serving(night_id)
        """Whose their hours are."""
        self.spending: Spending | None = None
        """Counts their hours, where the invocation has caps."""
        self._home, self._night_id, self._resources, self._tell = home, night_id, resources, tell
        self._queue, self._changed, self._numbers = (
            ServerQueue(machine_devices),
            threading.Condition(),
            count(),
        )
        self._meters: list[ServingMeter] = []
        self._enders: list[threading.Thread] = []

    def expect(self, plans: Iterable[RunPlan]) -> None:
        """Keep servers up for these runs, which begin later, and let those that need many devices go first."""
        with self._changed:
            for plan in plans:
                models = {
                    identity: asked
                    for identity, _, asked in plan.models
                    if is_served_here(identity.provider)
                }
                if models and plan.run_id not in self._queue.needed:
                    self._queue.needed[plan.run_id] = set(models)
                    players = (plan.spec.subject, plan.spec.simulator)
                    self._queue.upcoming[plan.run_id] = {
                        identity: demand_of(asked)
                        for identity, asked in models.items()
                        if identity in players
                    }

    def reach(
        self,
        plan: RunPlan | BuildPlan,
        only: Collection[ModelIdentity] | None = None,
        *,
        on_wait: Callable[[], None] = lambda: None,
        on_granted: Callable[[], None] = lambda: None,
        heed: Callable[[], None] = lambda: None,
    ) -> Mapping[ModelIdentity, ModelEndpoint]:
        """Start servers for the plan's models that need one; returns where all models are that are up.

        The plan uses them until `keep` or `leave`. Waits until there are devices for all of them.

        Args:
            only: those that are needed now; None for all of the plan's.
            on_wait: called first, where devices have to become free.
            on_granted: called once there are devices, before servers start.
            heed: called while it waits; ends the wait by what it raises.
        """
        of_plan = {identity: (endpoint, asked) for identity, endpoint, asked in plan.models}
        ours = [
            identity
            for identity in (of_plan if only is None else dict.fromkeys(only))
            if is_served_here(identity.provider)
        ]
        if not ours:
            on_granted()
        else:
            players = (
                (plan.spec.subject, plan.spec.simulator) if isinstance(plan, RunPlan) else ours
            )
            user = plan.run_id if isinstance(plan, RunPlan) else plan.build_id
            is_later = not any(identity in players for identity in ours)
            claim = Claim(
                user,
                {identity: of_plan[identity][1] for identity in ours},
                is_later,
                next(self._numbers),
            )
            grant = self._granted(claim, on_wait, heed)
            on_granted()
            self._start_all(plan, claim, grant, of_plan)
        with self._changed:
            return {
                name: server.place
                for name, server in self._queue.servers.items()
                if server.place and server.is_up
            }

    def fit(self, plan: RunPlan, identities: Iterable[ModelIdentity]) -> bool:
        """Whether the servers of these models could be up together."""
        asked = {identity: demand_of(request) for identity, _, request in plan.models}
        with self._changed:
            return self._queue.fits(
                {
                    identity: asked[identity]
                    for identity in identities
                    if is_served_here(identity.provider)
                }
            )

    def _granted(
        self, claim: Claim, on_wait: Callable[[], None], heed: Callable[[], None]
    ) -> Grant:
        with self._changed:
            self._queue.require_fit(claim)
            self._queue.upcoming.pop(claim.user, None)
            self._queue.waiting.append(claim)
            up = [
                server
                for identity in claim.wanted
                if (server := self._queue.servers.get(identity)) and server.is_up
            ]
        dead = [server for server in up if not is_served(server.place)]
        try:
            with self._changed:
                is_first = True
                while (
                    grant := self._queue.granted(
                        claim, [one for one in dead if one in self._known()]
                    )
                ) is None:
                    if is_first:
                        on_wait()
                    is_first = False
                    self._changed.wait(_HEED_EVERY_S)
                    heed_signals()
                    heed()
                return grant
        finally:
            with self._changed:
                self._queue.waiting.remove(claim)
                self._changed.notify_all()

    def _known(self) -> Collection[Server]:
        return tuple(self._queue.servers.values())

    def _start_all(
        self,
        plan: RunPlan | BuildPlan,
        claim: Claim,
        grant: Grant,
        of_plan: Mapping[ModelIdentity, tuple[ModelEndpoint, ModelRequest]],
    ) -> None:
        waiting = list(grant.to_start)
        try:
            again = [server.identity for server in grant.to_start]
            for server in grant.to_end:
                server.resources.close()
                if (
                    server.identity not in again
                ):  # the hours of one that died go on, and are still those of all runs that use it
                    self._ended(server)
            if isinstance(plan, RunPlan):
                self.hours.take(plan, claim.wanted)
            while waiting:
                self._start(waiting[0], of_plan[waiting[0].identity][0])
                waiting.pop(0)
        except BaseException:
            for server in waiting:
                self._ended(server)
            self._drop(claim.user, claim.wanted)
            raise

    def _start(self, server: Server, endpoint: ModelEndpoint) -> None:
        self._resources.enter_context(server.resources)
        try:
            if self.spending:
                server.resources.enter_context(self.spending.server(server.asked))
            place = server.resources.enter_context(
                self._server(server.identity, endpoint, self._on_devices(server))
            )
        except BaseException:
            server.resources.close()
            raise
        with self._changed:
            server.place = place
            self._changed.notify_all()

    @staticmethod
    def _on_devices(server: Server) -> ModelRequest:
        asked, chosen = server.asked, tuple(filter(None, server.devices))
        if asked.serve is None or asked.serve.devices != AUTO:
            return asked
        return asked.model_copy(
            update={"serve": asked.serve.model_copy(update={"devices": chosen})}
        )

    @contextmanager
    def _server(
        self, identity: ModelIdentity, endpoint: ModelEndpoint, asked: ModelRequest
    ) -> Iterator[ModelEndpoint]:
        from tasks.language.servers.served import serving

        with serving(
            identity, endpoint, asked.serve, asked.revision, self._home.logs, self._tell
        ) as place:
            if place.served_name is None or place.base_url is None:
                yield place
                return
            urls = place.replicas or (place.base_url,)
            with ServingMeter(
                Lake(self._home.lake), self._night_id, identity.label, place.served_name, urls
            ) as meter:
                self._meters.append(meter)
                try:
                    yield place
                finally:
                    self._meters.remove(meter)  # another server may get its port

    def keep(
        self,
        plan: RunPlan,
        used: Collection[ModelIdentity] = (),
        later: Collection[ModelIdentity] = (),
    ) -> None:
        """Note what a run still needs. Servers that no run needs any more end at once, beside the run.

        Args:
            used: models that the run goes on to use.
            later: models that the run will use again, after a pause. Their servers may have to start again then.
        """
        with self._changed:
            needed = self._queue.needed.get(plan.run_id, set())
            needed.intersection_update((*used, *later))
        self._drop(
            plan.run_id, [identity for identity, _, _ in plan.models if identity not in used]
        )

    def leave(self, run_id: str) -> None:
        """Note that a run is over."""
        with self._changed:
            self._queue.upcoming.pop(run_id, None)
            self._queue.needed.pop(run_id, None)
            held = [server.identity for server in self._known() if run_id in server.users]
        self._drop(run_id, held)
        self.hours.release(run_id)

    def _drop(self, user: str, identities: Iterable[ModelIdentity]) -> None:
        """Take a run off these servers, and end each that no run needs any more."""
        dropped = set(identities)
        self.hours.release(user, dropped)
        with self._changed:
            for server in self._known():
                if server.identity in dropped and user in server.users:
                    server.users.discard(user)
                    server.idle_since_s = time.monotonic()
            unneeded = [
                server
                for server in self._known()
                if server.is_up and not self._queue.is_needed(server)
            ]
            for server in unneeded:
                server.is_ending = True
            self._changed.notify_all()
        self._end_beside(unneeded)

    def _end_beside(self, servers: Sequence[Server]) -> None:
        """End servers in threads: SIGTERM to vLLM and the removal of its shared memory take seconds."""
        self._enders = [thread for thread in self._enders if thread.is_alive()]
        for server in servers:
            thread = threading.Thread(
                target=self._end, args=(server,), name=f"end {server.identity.label}", daemon=True
            )
            self._enders.append(thread)
            thread.start()

    def _end(self, server: Server) -> None:
        try:
            server.resources.close()
        except Exception:  # noqa: BLE001  (the log tells; a thread that ends a server has nobody to raise to)
            _LOG.exception("the server of %s did not end cleanly", server.identity.label)
        self._ended(server)

    def _ended(self, server: Server) -> None:
        with self._changed:
            if self._queue.servers.get(server.identity) is server:
                del self._queue.servers[server.identity]
                self.hours.end(server.identity)
            self._changed.notify_all()

    def measure(self) -> None:
        """Have what vLLM's servers did so far in the lake."""
        for meter in tuple(self._meters):
            meter.look()

    def end(self) -> None:
        """End all servers: nothing is asked of them any more, and their hours count."""
        with self._changed:
            up = [server for server in self._known() if server.is_up]
            for server in up:
                server.is_ending = True
            self._queue.needed.clear()
        self._end_beside(up)
        for thread in self._enders:
            while thread.is_alive():
                thread.join(_HEED_EVERY_S)
                heed_signals()


def is_served(place: ModelEndpoint | None) -> bool:
    """Whether there is a server, and it, or one of its replicas, has not died meanwhile."""
    if place is None or place.base_url is None:
        return False
    for url in place.replicas or (place.base_url,):
        address = urlsplit(url)
        with suppress(OSError), create_connection((address.hostname, address.port), timeout=10):
            return True
    return False
