"""Parley's own model servers in one night: started when a run first needs them, shared by the runs that go side by side."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from socket import create_connection
from urllib.parse import urlsplit

from flows.night.before.preflight import SERVED_HERE
from flows.night.serving import Serving
from flows.night.spending import Spending
from flows.night.turns import Turns
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.driver.serving_meter import ServingMeter
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.plan import RunPlan
from tasks.planning.request import ModelRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake

_TURN = "model servers"


class ModelServers:
    """The servers that are up. Safe by threads: they are started and ended one at a time.

    Args:
        resources: ends them with the night, at the latest.
        tell: gets what a server is at while it starts.
    """

    def __init__(self, home: Home, night_id: str, turns: Turns, resources: ExitStack, tell: Callable[[str], None]) -> None:
        self.hours = Serving(night_id)
        """Whose their hours are."""
        self.spending: Spending | None = None
        """Counts their hours, where the invocation has caps."""
        self._home, self._night_id, self._turns, self._resources, self._tell = home, night_id, turns, resources, tell
        self._up: dict[ModelIdentity, tuple[ModelEndpoint, ExitStack]] = {}
        """Where each model is served, and what ends its servers."""
        self._meters: list[ServingMeter] = []

    def reach(
        self, plan: RunPlan | BuildPlan, only: Collection[ModelIdentity] | None = None
    ) -> Mapping[ModelIdentity, ModelEndpoint]:
        """Start servers for the plan's models that need one; returns where all models are that are up.

        They stay up until one of another plan's is started, so that runs of one model load it once, and longer where a run under
        way uses them.

        Args:
            only: those that are needed now; None for all of the plan's.
        """
        of_plan = {identity: (identity, endpoint, asked) for identity, endpoint, asked in plan.models}
        ours = [identity for identity in (of_plan if only is None else dict.fromkeys(only)) if identity.provider in SERVED_HERE]
        if ours:
            with self._turns.alone(_TURN):
                self._have(plan, of_plan, ours)
        return {identity: place for identity, (place, _) in tuple(self._up.items())}

    def _have(
        self,
        plan: RunPlan | BuildPlan,
        of_plan: Mapping[ModelIdentity, tuple[ModelIdentity, ModelEndpoint, ModelRequest]],
        ours: Sequence[ModelIdentity],
    ) -> None:
        run_id = plan.run_id if isinstance(plan, RunPlan) else ""
        missing = [identity for identity in ours if not is_served(self._up[identity][0] if identity in self._up else None)]
        if missing:
            for identity in [one for one in self._up if one not in of_plan and not self.hours.is_used(one, besides=run_id)]:
                self._end(identity)
        if isinstance(plan, RunPlan):
            self.hours.take(plan, ours)
        for identity in missing:
            if identity in self._up:  # it died: its hours go on, and are still those of all runs that use it
                self._up.pop(identity)[1].close()
            self._start(*of_plan[identity])

    def _start(self, identity: ModelIdentity, endpoint: ModelEndpoint, asked: ModelRequest) -> None:
        server = self._resources.enter_context(ExitStack())
        try:
            if self.spending:
                server.enter_context(self.spending.server(asked))
            self._up[identity] = server.enter_context(self._server(identity, endpoint, asked)), server
        except BaseException:
            server.close()
            self.hours.end(identity)
            raise

    @contextmanager
    def _server(self, identity: ModelIdentity, endpoint: ModelEndpoint, asked: ModelRequest) -> Iterator[ModelEndpoint]:
        from tasks.language.servers.served import serving

        with serving(identity, endpoint, asked.serve, asked.revision, self._home.logs, self._tell) as place:
            if place.served_name is None or place.base_url is None:
                yield place
                return
            urls = place.replicas or (place.base_url,)
            with ServingMeter(Lake(self._home.lake), self._night_id, identity.label, place.served_name, urls) as meter:
                self._meters.append(meter)
                yield place

    def measure(self) -> None:
        """Have what vLLM's servers did so far in the lake."""
        for meter in tuple(self._meters):
            meter.look()

    def end(self) -> None:
        """End them: nothing is asked of them any more, and their hours count."""
        with self._turns.alone(_TURN):
            for identity in tuple(self._up):
                self._end(identity)

    def _end(self, identity: ModelIdentity) -> None:
        self._up.pop(identity)[1].close()
        self.hours.end(identity)


def is_served(place: ModelEndpoint | None) -> bool:
    """Whether there is a server, and it, or one of its replicas, has not died meanwhile."""
    if place is None or place.base_url is None:
        return False
    for url in place.replicas or (place.base_url,):
        address = urlsplit(url)
        with suppress(OSError), create_connection((address.hostname, address.port), timeout=10):
            return True
    return False
