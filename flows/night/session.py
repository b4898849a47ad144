"""Session of one invocation: its home, plans, cluster, model servers, caps and progress display.

The cluster and the servers start when they are first needed.
"""

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from secrets import token_hex
from threading import RLock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from flows.night.model_servers import ModelServers, is_served
from flows.night.preflight.checks import preflight, require_budget_is_counted, store_secrets
from flows.night.reporting.progress import Board
from flows.night.spending import Spending
from flows.night.turns import Turns
from flows.orchestration.processes import scratch_folder
from sandbox.host.slots import slot_count
from schemas.errors import BudgetSpent, ParleyError
from schemas.night.budget import Budget, CapSpent
from schemas.run import EmbedderIdentity, ModelEndpoint
from tasks.driver.fan_out import living_workers
from tasks.driver.signals import heed_signals, terminated_in_time
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.dataset import DatasetCache
from tasks.planning.participants.models import endpoints_of
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.reporting.report import RunReport
from tasks.planning.request import EvaluationRequest
from tasks.storage.home import Home
from tasks.storage.ledger import Sum
from tasks.worker import collector
from tasks.worker.budget_meter import BudgetMeter
from tasks.worker.call_log import CallLog

if TYPE_CHECKING:
    import pyarrow as pa

    from flows.night.reporting.telemetry import Telemetry
    from flows.orchestration.dask_cluster import PendingCluster
    from schemas.lake.records import QualityCheck
    from tasks.language.access import ModelAccess
    from warehouse.checks import CheckContext
    from warehouse.checks.service import WarehouseProcess
    from warehouse.lake import LakeRows

T = TypeVar("T")
THREADS_PER_WORKER = 64
"""Maximum number of shards in flight per worker process and queue (`flows.night.run_queue`).

It is enough for two runs. The threads wait on one event loop, so they are cheap.
"""
_EPISODES_PER_WORKER = 16
"""Episodes that one process plays as fast as two, since a process takes 1.2 CPU s to start."""


def needed_workers(plans: Sequence[RunPlan]) -> int:
    """Return the number of worker processes.

    This is the requested number, but at most one per 16 episodes of the largest run.
    """
    requested = max((plan.request.workers for plan in plans), default=1)
    episodes = max((len(plan.members) for plan in plans), default=1)
    return max(1, min(requested, math.ceil(episodes / _EPISODES_PER_WORKER)))


class Session:
    """One invocation, in the driver's process. Flows receive it, and take their plans from it.

    Args:
        home: Parley's data folder.
        board: Progress display. Default: none.
        secret_names: Environment variables that contain keys.
        plans: Plans that the caller has just made, so that the session need not make them again.
        datasets: Datasets that the caller has parsed.
    """

    def __init__(
        self,
        home: Home,
        board: Board | None = None,
        secret_names: tuple[str, ...] = (),
        plans: Iterable[RunPlan] = (),
        datasets: DatasetCache | None = None,
    ) -> None:
        self.home = home
        # Ids sort by time, such as `20261121T020000-1f2e`.
        self.night_id = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{token_hex(2)}"
        self.board = board or Board()
        self.datasets = datasets or DatasetCache()
        self.secret_names = secret_names
        self.reports: list[RunReport] = []
        self._resources = ExitStack()
        self.turns = Turns()
        """Locks for the steps that parallel runs execute one after another."""
        self.servers = ModelServers(home, self.night_id, self._resources, self.board.note)
        self._embedders: dict[EmbedderIdentity, ModelEndpoint] = {}
        self._cluster: PendingCluster | None = None
        self._client: Any = None
        self._copying: Thread | None = None
        self._warehouse_process: WarehouseProcess | None = None
        self._passed: set[str] = set()
        self._began_at = time.time()
        self.spending: Spending | None = None
        """Budget meter of the invocation, or None if it has no caps."""
        self.spent: tuple[CapSpent, ...] = ()
        """Amount used of each budget cap, set when all runs have ended."""
        self._plans = list(plans)
        self._telemetry: Telemetry | None = None
        self._calls_folder = ""
        self._starting, self._planning = RLock(), RLock()
        """Locks that let parallel runs start the cluster only once, and plan each run only once."""

    def plan(self, request: EvaluationRequest) -> RunPlan:
        """Return the run's plan; make it at the first call.

        Raises:
            ParleyError: The run cannot be planned.
        """
        with self._planning:
            plan = next((plan for plan in self._plans if plan.request == request), None)
            if plan is None:
                plan = plan_run(request, self.home, self.datasets)
                self._plans.append(plan)
            return plan

    def plan_of(self, request: EvaluationRequest) -> RunPlan | None:
        """Return the run's plan, or None if it cannot be planned. The run itself reports why."""
        try:
            return self.plan(request)
        except ParleyError:
            return None

    def unfinished(self, requests: Iterable[EvaluationRequest]) -> Iterator[RunPlan]:
        """Yield the plans of unfinished runs. Leave out requests that cannot be planned."""
        for request in requests:
            plan = self.plan_of(request)
            if plan is not None and not plan.is_finished():
                yield plan

    @property
    def workers(self) -> int:
        """Number of worker processes that the session's plans need."""
        return needed_workers(self._plans)

    def set_budget(self, budget: Budget | None) -> None:
        """Set the caps of the invocation. They apply to everything since its beginning.

        Raises:
            ConfigError: Workers on other machines cannot count what they spend.
        """
        require_budget_is_counted(self.home, budget)
        if budget is not None and self.spending is None:
            folder = self._resources.enter_context(scratch_folder(self.home.path / "spending"))
            # One name per night: this process caches open ledgers by name.
            ledger = str(folder / self.night_id)
            self.spending = self.servers.spending = Spending(budget, ledger, self._began_at)

    def budget_meter(self, plan: RunPlan) -> BudgetMeter | None:
        """Return the budget meter for the run's models, or None if there is no cap."""
        return self.spending.budget_meter(plan) if self.spending else None

    def why_over(self) -> str | None:
        """Return a line about the caps that are reached, or None if more requests may be sent."""
        return self.spending.why_over() if self.spending else None

    def export_to(self, collector: str | None) -> None:
        """Send the invocation's metrics to this OpenTelemetry collector until the night ends.

        Without a collector, import nothing.

        Args:
            collector: Base URL of the collector (see `notification_destinations`).
        """
        if collector is None or self._telemetry is not None:
            return
        from flows.night.reporting.telemetry import exporting

        scratch = self._resources.enter_context(scratch_folder(self.home.path / "calls"))
        # One folder per night: a worker may still have an earlier night's file open.
        folder = scratch / self.night_id
        self._calls_folder = str(folder)
        sending = exporting(collector, self.night_id, folder, self.board, lambda: self.reports)
        self._telemetry = self._resources.enter_context(sending)

    def call_log(self, plan: RunPlan) -> CallLog | None:
        """Return the log of the run's model calls, or None if no metrics are sent."""
        if self._telemetry is None:
            return None
        self._telemetry.follow(plan)
        return CallLog(self._calls_folder, plan.run_id)

    def heed_caps(self) -> None:
        """Raise an exception if a cap is reached, which ends the run that calls this.

        Raises:
            BudgetSpent: A cap is reached.
        """
        if over := self.why_over():
            raise BudgetSpent(over)

    def spent_by(self, plan: RunPlan) -> Sum:
        """Return the tokens that the run's models used in this invocation.

        Without caps nothing is counted, and the sum is zero.
        """
        return self.spending.ledger.of_run(plan.run_id) if self.spending else Sum()

    @contextmanager
    def using_servers(self, plan: RunPlan) -> Iterator[None]:
        """Mark a run as active in this block.

        The run is charged for the hours of its model servers until another run uses them.
        """
        self.servers.expect([plan])
        try:
            yield
        finally:
            self.servers.leave(plan.run_id)

    def preflight(self, plan: RunPlan) -> None:
        """Check, once a night per run, for faults that would make it fail.

        See `flows.night.preflight.checks`.
        """
        if plan.run_id not in self._passed:
            preflight(plan)
            self._passed.add(plan.run_id)

    def skip_preflight(self, run_ids: Iterable[str]) -> None:
        """Mark runs as checked, because the caller has just checked them."""
        self._passed.update(run_ids)

    def start_warehouse_process(self) -> None:
        """Start the process of checks and publication, unless this one has loaded the checks.

        The process makes the tables of a first publication before it receives a table to check.
        """
        if self._warehouse_process is None and "great_expectations" not in sys.modules:
            from warehouse.checks.service import WarehouseProcess, prepare_publication
            from warehouse.publication.copying import drop_prepared

            self._resources.callback(drop_prepared, self.home.path)
            self._warehouse_process = WarehouseProcess(self.secret_names, on_death=heed_signals)
            self._resources.callback(self._warehouse_process.close)
            benchmarks = {plan.spec.benchmark: plan.benchmark for plan in self._plans}
            marts = [mart for other in benchmarks.values() for mart in other.results.marts]
            self._warehouse_process.begin(prepare_publication, self.home.path, marts)

    def check_table(
        self, table: str, data: "pa.Table | LakeRows", context: "CheckContext"
    ) -> "list[QualityCheck]":
        """Run the quality checks of a table."""
        from warehouse.checks import check_table

        with self.turns.alone("checks"):
            return self.in_warehouse_process(check_table, table, data, context)

    def in_warehouse_process(
        self, function: Callable[..., T], *args: object, **options: object
    ) -> T:
        """Return what a function returns in the process of the quality checks, if there is one."""
        return (
            self._warehouse_process.call(function, *args, **options)
            if self._warehouse_process
            else function(*args, **options)
        )

    def start_cluster(self) -> None:
        """Start the Dask cluster, unless it is started, and return while its workers import."""
        with self._starting:
            if self._cluster is not None:
                return
            from flows.orchestration.dask_cluster import dask_cluster

            scratch = self._resources.enter_context(scratch_folder(self.home.path / "dask"))
            n_queues = len({endpoints_of(plan.subject, plan.simulator) for plan in self._plans})
            cluster = dask_cluster(
                n_workers=self.workers,
                threads_per_worker=THREADS_PER_WORKER * min(max(n_queues, 1), 8),
                scratch=scratch,
                secret_names=(*self.secret_names, *store_secrets(self.home)),
            )
            self._cluster = self._resources.enter_context(cluster)

    def client(self) -> Any:
        """Return the Dask client. The first call starts the cluster, or waits for its workers."""
        with self._starting:
            if self._client is None:
                from tasks.worker.process import PROGRESS_TOPIC

                self.start_cluster()
                assert self._cluster is not None
                self._client = self._cluster.wait_ready(self._worker_modules())
                self._client.subscribe_topic(
                    PROGRESS_TOPIC, lambda event: self.board.report(event[1])
                )
                self._resources.enter_context(collector.looking_less_often())
            return self._client

    def _worker_modules(self) -> tuple[str, ...]:
        """Return the modules that every worker of the night needs.

        A control or a recording has no client of endpoints.
        """
        models = [model for plan in self._plans for model in plan.request.models]
        return (
            *("tasks.worker.converse_shard", "tasks.worker.execute_shard"),
            *(("aiohttp",) if not models or any(model.converses for model in models) else ()),
        )

    @property
    def n_workers(self) -> int:
        """Return the number of living worker processes. The first call starts the cluster."""
        return len(living_workers(self.client()))

    @property
    def cores(self) -> int:
        """Return the cores of this machine.

        Workers of a remote cluster are assumed to have as many.
        """
        return slot_count()

    def embedder(self, plan: RunPlan | BuildPlan) -> "ModelAccess[EmbedderIdentity]":
        """Return access to the run's embedder.

        If Parley serves the embedder, the first call starts it, and it runs until the night ends.
        """
        access = plan.embedder
        assert access is not None
        identity = access.identity
        if not identity.is_hosted:
            with self.turns.alone("embedder"):
                if not is_served(self._embedders.get(identity)):
                    from tasks.language.servers.embedding_server import embedding_server

                    server = embedding_server(access, self.home.logs)
                    self._embedders[identity] = ModelEndpoint(
                        base_url=self._resources.enter_context(server)
                    )
                access = access.at(self._embedders[identity])
        return access

    def prepare_publication(self) -> None:
        """Start to copy the warehouse for the publication at the night's end, while models answer.

        Later calls in the same night do nothing.
        """
        from warehouse.publication.copying import prepare_copy

        with self._starting:
            if self._copying is None:
                self._copying = Thread(
                    target=prepare_copy, args=(self.home.path,), name="parley-copy", daemon=True
                )
                self._copying.start()

    def await_preparation(self) -> None:
        """Wait for the copy, if one was started."""
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
        """End all services.

        If a signal ends the night, the services receive its exception and skip slow steps. For
        example, Dask workers are killed.
        """
        self._client = None
        if isinstance(error, Exception):
            self._resources.close()
        else:
            self._resources.__exit__(kind, error, trace)


@contextmanager
def open_session(
    home: Home,
    board: Board | None = None,
    secret_names: tuple[str, ...] = (),
    plans: Iterable[RunPlan] = (),
    datasets: DatasetCache | None = None,
) -> Iterator[Session]:
    """Yield a session, and end its services at the end of the block. A signal ends them in time."""
    with terminated_in_time(), Session(home, board, secret_names, plans, datasets) as session:
        yield session
