"""Model servers that Parley itself starts in a night.

The runs of a night share the servers. A server starts at its first use, and ends when no run uses
it or will use it. The run that used it last then continues with its programs and scores.

Servers of several models run at the same time if there are enough devices (see
`flows.night.server_queue`).
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
    suppress,
)
from itertools import count
from socket import create_connection
from urllib.parse import urlsplit

from flows.night.server_queue import Claim, Grant, Server, ServerQueue, demand_of, machine_devices
from flows.night.serving import ServerHours, ServingMeter
from flows.night.spending import Spending
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.driver.signals import heed_signals
from tasks.language.access import ModelAccess
from tasks.language.providers.contract import ServeRequest
from tasks.language.providers.registry import PROVIDERS, is_served_here
from tasks.language.servers.vllm_settings import AUTO
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.plan import RunPlan
from tasks.planning.request import ModelRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake

_HEED_EVERY_S = 0.2
_LOG = logging.getLogger("parley.servers")


class ModelServers:
    """Running model servers of a night. The class is thread-safe.

    Args:
        home: Parley's data folder.
        night_id: Id of the night, for the rows about server use.
        resources: Exit stack of the night. Closing it ends all servers.
        print_line: Function that receives progress messages while a server starts.
    """

    def __init__(
        self, home: Home, night_id: str, resources: ExitStack, print_line: Callable[[str], None]
    ) -> None:
        self.hours = ServerHours(night_id)
        """Records which run used which server, and for how long."""
        self.spending: Spending | None = None
        """Counter of server hours, if the invocation has caps."""
        self._home, self._night_id, self._resources, self._print_line = (
            home,
            night_id,
            resources,
            print_line,
        )
        self._queue, self._changed, self._numbers = (
            ServerQueue(machine_devices),
            threading.Condition(),
            count(),
        )
        self._meters: list[ServingMeter] = []
        self._enders: list[threading.Thread] = []

    def expect(self, plans: Iterable[RunPlan]) -> None:
        """Announce runs that begin later, so that servers which they need are not ended.

        The announcement also lets runs that need many devices get them first.
        """
        with self._changed:
            for plan in plans:
                models = {
                    model.identity: model.request
                    for model in plan.models
                    if is_served_here(model.identity.provider)
                }
                if models and plan.run_id not in self._queue.needed:
                    self._queue.needed[plan.run_id] = set(models)
                    players = (plan.spec.subject, plan.spec.simulator)
                    self._queue.upcoming[plan.run_id] = {
                        identity: demand_of(request)
                        for identity, request in models.items()
                        if identity in players
                    }

    def reach(
        self,
        plan: RunPlan | BuildPlan,
        only: Collection[ModelIdentity] | None = None,
        *,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
        heed: Callable[[], None] = lambda: None,
    ) -> Mapping[ModelIdentity, ModelEndpoint]:
        """Start the servers that the plan's models need, and return all usable endpoints by model.

        The call waits until there are devices for all these servers. They count as used by the plan
        until `keep` or `leave` is called.

        Args:
            plan: Run or build that needs the servers.
            only: Models that are needed now. None: all models of the plan.
            waiting: Function that returns a context manager, which is open while the call waits
                for devices.
            heed: Function called repeatedly during the wait. An exception that it raises ends the
                wait.
        """
        of_plan = {model.identity: (model.access, model.request) for model in plan.models}
        ours = [
            identity
            for identity in (of_plan if only is None else dict.fromkeys(only))
            if is_served_here(identity.provider)
        ]
        if ours:
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
            grant = self._wait_for_grant(claim, waiting, heed)
            self._start_all(plan, claim, grant, of_plan)
        with self._changed:
            return {
                name: server.place
                for name, server in self._queue.servers.items()
                if server.place and server.is_up
            }

    def fit(self, plan: RunPlan, identities: Iterable[ModelIdentity]) -> bool:
        """Return True if the devices suffice to run these models' servers at the same time."""
        demands = {model.identity: demand_of(model.request) for model in plan.models}
        with self._changed:
            return self._queue.fits(
                {
                    identity: demands[identity]
                    for identity in identities
                    if is_served_here(identity.provider)
                }
            )

    def _wait_for_grant(
        self,
        claim: Claim,
        waiting: Callable[[], AbstractContextManager[None]],
        heed: Callable[[], None],
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

        def granted() -> Grant | None:
            return self._queue.granted(
                claim, [server for server in dead if server in self._servers_now()]
            )

        try:
            with self._changed:
                if (grant := granted()) is None:
                    with waiting():
                        while (grant := granted()) is None:
                            self._changed.wait(_HEED_EVERY_S)
                            heed_signals()
                            heed()
                return grant
        finally:
            with self._changed:
                self._queue.waiting.remove(claim)
                self._changed.notify_all()

    def _servers_now(self) -> Collection[Server]:
        return tuple(self._queue.servers.values())

    def _start_all(
        self,
        plan: RunPlan | BuildPlan,
        claim: Claim,
        grant: Grant,
        of_plan: Mapping[ModelIdentity, tuple[ModelAccess, ModelRequest]],
    ) -> None:
        waiting = list(grant.to_start)
        try:
            again = [server.identity for server in grant.to_start]
            for server in grant.to_end:
                server.resources.close()
                # A dead server that is started again keeps its users, which are charged for its
                # hours.
                if server.identity not in again:
                    self._forget(server)
            if isinstance(plan, RunPlan):
                self.hours.take(plan, claim.wanted)
            while waiting:
                self._start(waiting[0], of_plan[waiting[0].identity][0])
                waiting.pop(0)
        except BaseException:
            for server in waiting:
                self._forget(server)
            self._drop(claim.user, claim.wanted)
            raise

    def _start(self, server: Server, access: ModelAccess) -> None:
        self._resources.enter_context(server.resources)
        try:
            if self.spending:
                server.resources.enter_context(self.spending.server(server.request))
            place = server.resources.enter_context(self._server(access, self._on_devices(server)))
        except BaseException:
            server.resources.close()
            raise
        with self._changed:
            server.place = place
            self._changed.notify_all()

    @staticmethod
    def _on_devices(server: Server) -> ModelRequest:
        request, devices = server.request, tuple(filter(None, server.devices))
        if request.serve is None or request.serve.devices != AUTO:
            return request
        return request.model_copy(
            update={"serve": request.serve.model_copy(update={"devices": devices})}
        )

    @contextmanager
    def _server(self, access: ModelAccess, request: ModelRequest) -> Iterator[ModelEndpoint]:
        label, serve = access.label, PROVIDERS.load(access.identity.provider).serve
        assert serve is not None  # Only such models have servers.
        with serve(
            ServeRequest(access, request.serve, request.revision, self._home.logs, self._print_line)
        ) as place:
            if place.served_name is None or place.base_url is None:
                yield place
                return
            urls = place.replicas or (place.base_url,)
            with ServingMeter(
                Lake(self._home.lake), self._night_id, label, place.served_name, urls
            ) as meter:
                self._meters.append(meter)
                try:
                    yield place
                finally:
                    self._meters.remove(meter)  # Another server may use its port later.

    def keep(
        self,
        plan: RunPlan,
        used: Collection[ModelIdentity] = (),
        later: Collection[ModelIdentity] = (),
    ) -> None:
        """Record which servers a run still needs.

        End each server that no run needs any more, in the background.

        Args:
            plan: The run.
            used: Models that the run continues to use.
            later: Models that the run uses again after a pause. Their servers may end and
                start again meanwhile.
        """
        with self._changed:
            needed = self._queue.needed.get(plan.run_id, set())
            needed.intersection_update((*used, *later))
        self._drop(
            plan.run_id, [model.identity for model in plan.models if model.identity not in used]
        )

    def leave(self, run_id: str) -> None:
        """Record that a run has ended."""
        with self._changed:
            self._queue.upcoming.pop(run_id, None)
            self._queue.needed.pop(run_id, None)
            held = [server.identity for server in self._servers_now() if run_id in server.users]
        self._drop(run_id, held)
        self.hours.release(run_id)

    def _drop(self, user: str, identities: Iterable[ModelIdentity]) -> None:
        """Remove a run from the users of these servers.

        End each server that no run needs any more.
        """
        dropped = set(identities)
        self.hours.release(user, dropped)
        with self._changed:
            for server in self._servers_now():
                if server.identity in dropped and user in server.users:
                    server.users.discard(user)
                    server.idle_since_s = time.monotonic()
            unneeded = [
                server
                for server in self._servers_now()
                if server.is_up and not self._queue.is_needed(server)
            ]
            for server in unneeded:
                server.is_ending = True
            self._changed.notify_all()
        self._end_beside(unneeded)

    def _end_beside(self, servers: Sequence[Server]) -> None:
        """End servers in threads: stopping vLLM and removing its shared memory takes seconds."""
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
        except Exception:  # noqa: BLE001  (logged, since the thread has no caller to raise to)
            _LOG.exception("The server of %s did not end cleanly", server.identity.label)
        self._forget(server)

    def _forget(self, server: Server) -> None:
        with self._changed:
            if self._queue.servers.get(server.identity) is server:
                del self._queue.servers[server.identity]
                self.hours.end(server.identity)
            self._changed.notify_all()

    def measure(self) -> None:
        """Write the metrics of all vLLM servers to the lake."""
        for meter in tuple(self._meters):
            meter.look()

    def end(self) -> None:
        """End all servers and count their hours. No requests may follow."""
        with self._changed:
            up = [server for server in self._servers_now() if server.is_up]
            for server in up:
                server.is_ending = True
            self._queue.needed.clear()
        self._end_beside(up)
        for thread in self._enders:
            while thread.is_alive():
                thread.join(_HEED_EVERY_S)
                heed_signals()


def is_served(place: ModelEndpoint | None) -> bool:
    """Return True if the server, or one of its replicas, accepts connections."""
    if place is None or place.base_url is None:
        return False
    for url in place.replicas or (place.base_url,):
        address = urlsplit(url)
        with suppress(OSError), create_connection((address.hostname, address.port), timeout=10):
            return True
    return False
