"""Resources of one invocation: its home, its cluster and model servers (started when first needed), its caps and board."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from secrets import token_hex
from threading import RLock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from flows.night.model_servers import ModelServers, is_served
from flows.night.preflight.checks import preflight
from flows.night.preflight.shared_folder import require_budget_is_counted, store_secrets
from flows.night.reporting.progress import Board
from flows.night.spending import Spending
from flows.night.turns import Turns
from flows.orchestration.processes import scratch_folder
from sandbox.host.slots import slot_count
from schemas.embedding import EmbedderIdentity
from schemas.errors import BudgetSpent
from schemas.night.budget import Budget, CapSpent
from schemas.run import ModelEndpoint
from tasks.driver.fan_out import living_workers
from tasks.driver.signals import terminated_in_time
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.dataset import reading_once
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.reporting.report import RunReport
from tasks.planning.request import EvaluationRequest
from tasks.storage.home import Home
from tasks.storage.ledger import Sum
from tasks.worker import collector
from tasks.worker.call_log import CallLog
from tasks.worker.purse import Purse

if TYPE_CHECKING:
    import pyarrow as pa

    from flows.night.reporting.telemetry import Telemetry
    from schemas.lake.records import QualityCheck
    from tasks.language.embedding import EmbedderAccess
    from warehouse.checks import CheckContext
    from warehouse.checks.service import CheckService

THREADS_PER_WORKER = 64
"""Shards that a worker process may have in flight for each lane of runs (`tasks.driver.lanes`): enough for two of its runs.

They wait on one loop, so threads are cheap."""


def new_night_id() -> str:
    """Sorts by time: `20261121T020000-1f2e`."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{token_hex(2)}"


class Night:
    """One invocation of the nightly flow, in the driver's process."""

    def __init__(
        self,
        home: Home,
        workers: int,
        board: Board | None = None,
        secret_names: tuple[str, ...] = (),
    ) -> None:
        self.home, self.workers = home, workers
        self.night_id = new_night_id()
        self.board = board or Board()
        self.secret_names = secret_names
        self.reports: list[RunReport] = []
        self._resources = ExitStack()
        self.turns = Turns()
        """What runs that go side by side do one after another."""
        self.servers = ModelServers(home, self.night_id, self._resources, self.board.note)
        self._embedders: dict[EmbedderIdentity, ModelEndpoint] = {}
        self._client: Any = None
        self._copying: Thread | None = None
        self._checks: CheckService | None = None
        self._passed: set[str] = set()
        self._began_at = time.time()
        self.spending: Spending | None = None
        """The caps of the invocation, if it has any."""
        self.spent: tuple[CapSpent, ...] = ()
        """What was spent of each cap, once all runs are over."""
        self._plans: list[RunPlan] = []
        self.n_lanes = 1
        """Of runs that go side by side; set before the cluster is started."""
        self._telemetry: Telemetry | None = None
        self._calls_folder = ""
        self._starting, self._planning = RLock(), RLock()
        """Runs that go side by side start the cluster once, and plan each run once."""

    def plan(self, request: EvaluationRequest) -> RunPlan:
        """Return the run's plan; it is made at the first call.

        Raises:
            ParleyError: it cannot be planned.
        """
        with self._planning:
            plan = next((plan for plan in self._plans if plan.request == request), None)
            if plan is None:
                plan = plan_run(request, self.home)
                self._plans.append(plan)
            return plan

    def take_plans(self, plans: Iterable[RunPlan]) -> None:
        """Use these plans, which were made a moment ago, for their requests."""
        self._plans += plans

    def set_budget(self, budget: Budget | None) -> None:
        """Hold the invocation to these caps, from its beginning on.

        Raises:
            ConfigError: workers elsewhere could not count what they spend.
        """
        require_budget_is_counted(self.home, budget)
        if budget is not None and self.spending is None:
            folder = self._resources.enter_context(scratch_folder(self.home.path / "spending"))
            ledger = str(
                folder / self.night_id
            )  # its process remembers open ledgers by name, and may have had a night before
            self.spending = self.servers.spending = Spending(budget, ledger, self._began_at)

    def purse(self, plan: RunPlan) -> Purse | None:
        """What the run's models are paid from; None where there is no cap."""
        return self.spending.purse(plan) if self.spending else None

    def why_over(self) -> str | None:
        """Which caps are met, in a line; None where nothing keeps the invocation from asking for more."""
        return self.spending.why_over() if self.spending else None

    def export_to(self, collector: str | None) -> None:
        """Send metrics of the invocation to this OpenTelemetry collector, from now to its end. Nothing is imported without one.

        Args:
            collector: its base URL, as `flows.night.preflight.collector` found it.
        """
        if collector is None or self._telemetry is not None:
            return
        from flows.night.reporting.telemetry import exporting

        scratch = self._resources.enter_context(scratch_folder(self.home.path / "calls"))
        folder = (
            scratch / self.night_id
        )  # nights of one process differ: a worker may have an earlier one's file open
        self._calls_folder = str(folder)
        sending = exporting(collector, self.night_id, folder, self.board, lambda: self.reports)
        self._telemetry = self._resources.enter_context(sending)

    def call_log(self, plan: RunPlan) -> CallLog | None:
        """Log of the run's model calls; None where no metrics are sent."""
        if self._telemetry is None:
            return None
        self._telemetry.follow(plan)
        return CallLog(self._calls_folder, plan.run_id)

    def heed_caps(self) -> None:
        """End a run here if a cap is met.

        Raises:
            BudgetSpent: one is.
        """
        if over := self.why_over():
            raise BudgetSpent(over)

    def spent_by(self, plan: RunPlan) -> Sum:
        """What the run's models said in this invocation; to be asked where there is a cap."""
        return self.spending.ledger.of_run(plan.run_id) if self.spending else Sum()

    @contextmanager
    def using_servers(self, plan: RunPlan) -> Iterator[None]:
        """A run is under way in this block: the hours of the model servers that it uses are its own, until others use them."""
        self.servers.expect([plan])
        try:
            yield
        finally:
            self.servers.leave(plan.run_id)

    def preflight(self, plan: RunPlan) -> None:
        """Find, once a night for each run, what is bound to fail. See `flows.night.preflight.checks`."""
        if plan.run_id not in self._passed:
            preflight(plan)
            self._passed.add(plan.run_id)

    def skip_preflight(self, run_ids: Iterable[str]) -> None:
        """Take it that these runs have passed it a moment ago."""
        self._passed.update(run_ids)

    def start_checks(self) -> None:
        """Have tables checked by a process that gets ready for it now, unless this one is ready already."""
        if self._checks is None and "great_expectations" not in sys.modules:
            from warehouse.checks.service import CheckService

            self._checks = CheckService(self.secret_names)
            self._resources.callback(self._checks.close)

    def check_table(
        self, table: str, data: "pa.Table", context: "CheckContext"
    ) -> "list[QualityCheck]":
        """Run a table's suite of quality checks."""
        from warehouse.checks import check_table

        with self.turns.alone("checks"):
            return (self._checks.check_table if self._checks else check_table)(table, data, context)

    def client(self) -> Any:
        """The Dask client; starts the cluster at the first call."""
        with self._starting:
            return self._started_client()

    def _started_client(self) -> Any:
        if self._client is None:
            from flows.orchestration.dask_cluster import dask_cluster, warm
            from tasks.worker.process import PROGRESS_TOPIC

            scratch = self._resources.enter_context(scratch_folder(self.home.path / "dask"))
            cluster = dask_cluster(
                n_workers=self.workers,
                threads_per_worker=THREADS_PER_WORKER * min(self.n_lanes, 8),
                scratch=scratch,
                secret_names=(*self.secret_names, *store_secrets(self.home)),
            )
            self._client = self._resources.enter_context(cluster)
            warm(
                self._client,
                ("tasks.worker.converse_shard", "tasks.worker.execute_shard", "openai", "aiohttp"),
            )
            self._client.subscribe_topic(PROGRESS_TOPIC, lambda event: self.board.report(event[1]))
            self._resources.enter_context(collector.looking_less_often())
        return self._client

    @property
    def n_workers(self) -> int:
        """Living worker processes; starts the cluster at the first call."""
        return len(living_workers(self.client()))

    @property
    def cores(self) -> int:
        """Cores of the machine that runs the programs (a remote cluster's workers are taken to be alike)."""
        return slot_count()

    def embedder(self, plan: RunPlan | BuildPlan) -> "EmbedderAccess":
        """Where the run's embedder is reached; one of our own is started at the first call and stays up."""
        from tasks.language.embedding import EmbedderAccess
        from tasks.language.endpoints.call_policy import CallPolicy
        from tasks.language.endpoints.outage import OutagePolicy

        identity, endpoint, asked = plan.spec.embedder, plan.embedder, plan.request.embedder
        assert identity is not None
        assert endpoint is not None
        assert asked is not None
        if not identity.is_hosted:
            with self.turns.alone("embedder"):
                if not is_served(self._embedders.get(identity)):
                    from tasks.language.servers.embedding_server import embedding_server

                    server = embedding_server(identity, endpoint, self.home.logs)
                    self._embedders[identity] = ModelEndpoint(
                        base_url=self._resources.enter_context(server)
                    )
                endpoint = self._embedders[identity]
        policy = CallPolicy(
            concurrency=asked.concurrency or plan.request.concurrency,
            timeout_s=asked.timeout_s,
            check_served_model=asked.check_served_model,
            outage=OutagePolicy(patience_s=asked.patience_s),
        )
        return EmbedderAccess(identity, endpoint, policy)

    def prepare_publication(self) -> None:
        """Begin to copy the warehouse for the publication at the night's end, while the models answer; once a night."""
        from warehouse.publication.prepared import prepare_copy

        with self._starting:
            if self._copying is None:
                self._copying = Thread(
                    target=prepare_copy, args=(self.home.path,), name="parley-copy", daemon=True
                )
                self._copying.start()

    def await_preparation(self) -> None:
        """Wait for the copy, if one was begun."""
        if self._copying is not None:
            self._copying.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what was started; at once where a signal ends the night, which no part of it can refuse."""
        self._client = None
        if isinstance(error, Exception):
            self._resources.close()
        else:
            self._resources.__exit__(kind, error, trace)


_current: ContextVar[Night | None] = ContextVar("parley_night", default=None)


@contextmanager
def night(
    home: Home, workers: int, board: Board | None = None, secret_names: tuple[str, ...] = ()
) -> Iterator[Night]:
    """The night that is under way, or a new one for the time of the block."""
    under_way = _current.get()
    if under_way is not None:
        yield under_way
        return
    opened = Night(home, workers, board, secret_names)
    token = _current.set(opened)
    try:
        with terminated_in_time(), opened, reading_once():
            yield opened
    finally:
        _current.reset(token)
