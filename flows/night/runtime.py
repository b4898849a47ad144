"""Resources of one invocation: its home, its cluster (started when first needed) and its board of progress."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from secrets import token_hex
from socket import create_connection
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flows.night.preflight import SERVED_HERE, preflight
from flows.night.progress import Board
from flows.orchestration.processes import scratch_folder
from sandbox.host.slots import slot_count
from schemas.run import ModelEndpoint, ModelIdentity, Provider
from tasks.driver.fan_out import living_workers
from tasks.driver.signals import terminated_in_time
from tasks.planning.dataset import reading_once
from tasks.planning.plan import RunPlan
from tasks.planning.report import RunReport
from tasks.storage.home import Home

if TYPE_CHECKING:
    import pyarrow as pa

    from schemas.run import QualityCheck
    from warehouse.checks import CheckContext
    from warehouse.checks.service import CheckService

THREADS_PER_WORKER = 64
"""Shards that a worker process may have in flight; they wait on one loop, so threads are cheap."""


def new_night_id() -> str:
    """Sorts by time: `20261121T020000-1f2e`."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{token_hex(2)}"


class Night:
    """One invocation of the nightly flow, in the driver's process."""

    def __init__(self, home: Home, workers: int, board: Board | None = None, secret_names: tuple[str, ...] = ()) -> None:
        self.home, self.workers = home, workers
        self.night_id = new_night_id()
        self.board = board or Board()
        self.secret_names = secret_names
        self.reports: list[RunReport] = []
        self._resources = ExitStack()
        self._servers = self._resources.enter_context(ExitStack())
        self._served: dict[ModelIdentity, str] = {}
        self._client: Any = None
        self._copying: Thread | None = None
        self._checks: CheckService | None = None
        self._passed: set[str] = set()

    def preflight(self, plan: RunPlan) -> None:
        """Find, once a night for each run, what is bound to fail. See `flows.night.preflight`."""
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

    def check_table(self, table: str, data: "pa.Table", context: "CheckContext") -> "list[QualityCheck]":
        """Run a table's suite of quality checks."""
        from warehouse.checks import check_table

        return (self._checks.check_table if self._checks else check_table)(table, data, context)

    def client(self) -> Any:
        """The Dask client; starts the cluster at the first call."""
        if self._client is None:
            from flows.orchestration.dask_cluster import dask_cluster, warm
            from tasks.worker.process import PROGRESS_TOPIC

            scratch = self._resources.enter_context(scratch_folder(self.home.path / "dask"))
            cluster = dask_cluster(
                n_workers=self.workers,
                threads_per_worker=THREADS_PER_WORKER,
                scratch=scratch,
                secret_names=self.secret_names,
            )
            self._client = self._resources.enter_context(cluster)
            warm(self._client, ("tasks.worker.converse_shard", "tasks.worker.execute_shard", "openai", "aiohttp"))
            self._client.subscribe_topic(PROGRESS_TOPIC, lambda event: self.board.report(event[1]))
        return self._client

    @property
    def n_workers(self) -> int:
        """Living worker processes; starts the cluster at the first call."""
        return len(living_workers(self.client()))

    @property
    def cores(self) -> int:
        """Cores of the machine that runs the programs (a remote cluster's workers are taken to be alike)."""
        return slot_count()

    def model_servers(self, plan: RunPlan) -> Mapping[ModelIdentity, str]:
        """Start local servers for the run's models that need one; returns their addresses.

        They stay up until a run needs others, so that runs of one model load it once.
        """
        asked = (
            (plan.spec.subject, plan.subject, plan.request.model),
            (plan.spec.simulator, plan.simulator, plan.request.simulator),
        )
        needed = {
            identity: self._server(identity, endpoint, request.revision)
            for identity, endpoint, request in asked
            if identity and endpoint and request and identity.provider in SERVED_HERE
        }
        if not all(_is_served(self._served.get(identity)) for identity in needed):
            self._servers.close()
            self._served = {}
            for identity, server in needed.items():
                self._served[identity] = self._servers.enter_context(server)
        return self._served

    def _server(self, identity: ModelIdentity, endpoint: ModelEndpoint, revision: str | None) -> AbstractContextManager[str]:
        if identity.provider is Provider.EMBEDDED:
            from tasks.language.embedded_server import embedded_server

            return embedded_server(self.home.logs)
        from tasks.language.vllm_server import vllm_server

        return vllm_server(endpoint.path or identity.name, self.home.logs, revision=revision)

    def prepare_publication(self) -> None:
        """Begin to copy the warehouse for the publication at the night's end, while the models answer; once a night."""
        from warehouse.prepared import prepare_copy

        if self._copying is None:
            self._copying = Thread(target=prepare_copy, args=(self.home.path,), name="parley-copy", daemon=True)
            self._copying.start()

    def await_preparation(self) -> None:
        """Wait for the copy, if one was begun."""
        if self._copying is not None:
            self._copying.join()

    def close(self) -> None:
        """End the cluster, if one was started."""
        self._client = None
        self._resources.close()


def _is_served(base_url: str | None) -> bool:
    """Whether there is a server, and it has not died meanwhile."""
    if base_url is None:
        return False
    address = urlsplit(base_url)
    with suppress(OSError), create_connection((address.hostname, address.port), timeout=10):
        return True
    return False


_current: ContextVar[Night | None] = ContextVar("parley_night", default=None)


@contextmanager
def night(home: Home, workers: int, board: Board | None = None, secret_names: tuple[str, ...] = ()) -> Iterator[Night]:
    """The night that is under way, or a new one for the time of the block."""
    under_way = _current.get()
    if under_way is not None:
        yield under_way
        return
    opened = Night(home, workers, board, secret_names)
    token = _current.set(opened)
    try:
        with terminated_in_time(), reading_once():
            yield opened
    finally:
        _current.reset(token)
        opened.close()
