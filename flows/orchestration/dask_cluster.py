"""Dask cluster that runs shards: a temporary local one, or the one of PARLEY_DASK_ADDRESS.

Workers of the temporary cluster are children of the driver. Each worker watches a pipe that the
driver holds open (distributed's `AsyncProcess`) and exits when the pipe closes. A driver that is
killed with SIGKILL therefore leaves no worker behind.
"""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flows.orchestration import packages
from flows.orchestration.packages import verify_packages as verify_packages
from flows.orchestration.processes import hidden_secrets, looks_secret
from schemas.errors import ConfigError, ServerUnavailable
from tasks.driver.signals import stop_asked

if TYPE_CHECKING:
    from concurrent.futures import Future

    from distributed import Client, LocalCluster, Nanny
    from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin

ADDRESS_VARIABLE = "PARLEY_DASK_ADDRESS"
_ADDRESS = re.compile(
    r"((tcp|tls|ws|wss|ucx|ucxx)://)?(\[[0-9A-Fa-f:.%]+\]|[^\s/:@\[\]]+):[0-9]{1,5}/?"
)
CONNECT_LIMIT_S = 15
START_LIMIT_S = 120
_SPAWN_POLL_S = 0.005
QUIET = {
    "distributed.admin.tick.interval": "10s",
    "distributed.admin.tick.limit": "1h",
    "distributed.diagnostics.nvml": False,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.low-level-log-length": 0,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""Dask settings that avoid needless output, CPU time and memory.

Warnings about a busy event loop, the search for GPUs and the profiler are off, and measurements of
the event loop (every 20 ms by default), of the system and of memory (every 100 ms, for each worker
in the driver and in the worker) are rare, because all of them cost CPU time during the whole run.
The message log is off, because client and scheduler (both in the driver)
would store the last 1,000 messages with all their dialogues. Nobody reads the pages and metrics of
scheduler and workers, whose modules take 0.01 s of processor time in each process.
"""


def named_address() -> str | None:
    """Return the scheduler address in PARLEY_DASK_ADDRESS, or None for a local cluster.

    Raises:
        ConfigError: the value is not an address. Without this check, Dask's client would open a
            connection and wait for its end.
    """
    address = os.environ.get(ADDRESS_VARIABLE)
    if address and not _ADDRESS.fullmatch(address):
        raise ConfigError(
            f"{ADDRESS_VARIABLE}={address!r} is not the address of a Dask scheduler. Set it to"
            " tcp://HOST:PORT (or tls://...), as `dask scheduler` prints it, or unset it to use"
            " this machine"
        )
    return address or None


@dataclass(frozen=True, slots=True)
class PendingCluster:
    """Dask cluster whose workers may still be starting."""

    _client: "Client"
    _wait: Callable[[], None]

    def wait_ready(self, modules: tuple[str, ...] = ()) -> "Client":
        """Wait for the workers, import `modules` in each of them, and return the cluster's client.

        After these imports, the first shard does not wait for them.

        Raises:
            ServerUnavailable: the workers did not start, or one cannot import a module.
            ConfigError: workers would import other packages than this installation's.
        """
        self._wait()
        try:
            _run_by_value(self._client, packages.import_modules, modules)
        except ImportError as error:
            raise ServerUnavailable(
                f"a Dask worker cannot import {error.name!r} ({error}). Install the same wheel on"
                " the worker's machine"
            ) from error
        return self._client


@contextmanager
def dask_cluster(
    *, n_workers: int, threads_per_worker: int, scratch: Path, secret_names: tuple[str, ...] = ()
) -> Iterator[PendingCluster]:
    """Yield a Dask cluster whose workers may still be starting.

    The caller can do other slow work before it calls `wait_ready`. The cluster is the one of
    PARLEY_DASK_ADDRESS, or else a new local one that ends with the block.

    Args:
        n_workers: number of worker processes of a new cluster, at least 1. An existing cluster
            keeps the workers that it has.
        threads_per_worker: concurrent tasks of each new worker, at least 1.
        scratch: folder for the new workers' files.
        secret_names: environment variables that new workers keep although they look like API keys,
            because workers call the models.

    Raises:
        ServerUnavailable: the existing cluster does not answer or has no workers, or a new cluster
            does not start.
        ConfigError: PARLEY_DASK_ADDRESS is not an address, or workers would import other packages
            than this installation's.
    """
    address = named_address()
    with (
        _existing_cluster(address)
        if address
        else _local_cluster(n_workers, threads_per_worker, scratch, secret_names) as cluster
    ):
        yield cluster


@contextmanager
def _local_cluster(
    n_workers: int, threads_per_worker: int, scratch: Path, secret_names: tuple[str, ...]
) -> Iterator[PendingCluster]:
    import logging

    import dask.config
    from distributed import Client, LocalCluster

    packages.verify_packages()
    scratch.mkdir(parents=True, exist_ok=True)
    # The level is never reset, because objects that close after the cluster would log errors.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    nannies: list[Nanny] = []
    with (
        dask.config.set({**QUIET, "temporary-directory": str(scratch)}),
        ExitStack() as stack,
        _nanny_that_stops(nannies) as nanny,
    ):
        with _explaining_start(n_workers, scratch):
            cluster = LocalCluster(
                n_workers=0,
                threads_per_worker=threads_per_worker,
                worker_class=nanny,
                memory_limit=1 / n_workers,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                local_directory=str(scratch),
                silence_logs=logging.CRITICAL,
            )
            stack.enter_context(cluster)
            with hidden_secrets(secret_names), _silent_tracker():
                workers = _start_workers(cluster, n_workers)
                while sum(nanny.pid is not None for nanny in nannies) < n_workers:
                    if workers.done():  # A worker that has failed has no process.
                        workers.result()
                        break
                    time.sleep(_SPAWN_POLL_S)
            # A client of the cluster itself, rather than of its address, would await the workers.
            client = stack.enter_context(
                Client(cluster.scheduler_address, timeout=START_LIMIT_S, set_as_default=False)
            )
            client.register_plugin(_private_worker(secret_names))
            client.register_plugin(_relax_dead_worker())

        def wait() -> None:
            with _explaining_start(n_workers, scratch):
                workers.result(START_LIMIT_S)
                client.wait_for_workers(n_workers, timeout=START_LIMIT_S)
            for worker, origins in _run_by_value(client, packages.locate_packages).items():
                packages.check_packages(f"Dask worker {worker}", origins, packages.ROOT)

        yield PendingCluster(client, wait)


def _start_workers(cluster: "LocalCluster", n_workers: int) -> "Future[None]":
    """Begin to start the workers of a cluster, and return a future of their readiness.

    The imports of a worker take a second, in which the caller can import as well.
    """
    import asyncio

    async def start() -> None:
        for _ in range(n_workers):
            cluster.worker_spec.update(cluster.new_worker_spec())
        await cluster

    loop: Any = cluster.loop
    return asyncio.run_coroutine_threadsafe(start(), loop.asyncio_loop)


@contextmanager
def _explaining_start(n_workers: int, scratch: Path) -> Iterator[None]:
    """Replace errors of a cluster that does not start by ServerUnavailable."""
    try:
        yield
    except (OSError, RuntimeError, TimeoutError) as error:
        raise ServerUnavailable(
            f"the Dask cluster of {n_workers} workers on this machine did not start: {error}. "
            f"Check free memory and disk space at {scratch}, or use fewer --workers"
        ) from error


@contextmanager
def _existing_cluster(address: str) -> Iterator[PendingCluster]:
    import dask.config
    from distributed import Client

    remedy = (
        f"start it (`dask scheduler`, `dask worker`), or unset {ADDRESS_VARIABLE} to use this"
        " machine"
    )
    with dask.config.set(QUIET), ExitStack() as stack:
        try:
            client = stack.enter_context(
                Client(address, timeout=CONNECT_LIMIT_S, set_as_default=False)
            )
        except (OSError, ValueError) as error:
            raise ServerUnavailable(
                f"no Dask scheduler answers at {ADDRESS_VARIABLE}={address!r} ({error}); {remedy}"
            ) from error
        try:
            client.wait_for_workers(1, timeout=CONNECT_LIMIT_S)
        except TimeoutError:
            raise ServerUnavailable(
                f"the Dask scheduler at {ADDRESS_VARIABLE}={address!r} has no workers; {remedy}"
            ) from None
        for worker, there in _run_by_value(client, packages.describe_installation).items():
            packages.check_worker(worker, there)
        client.register_plugin(_no_profiler())
        client.register_plugin(_relax_dead_worker())
        yield PendingCluster(client, lambda: None)


@contextmanager
def _silent_tracker() -> Iterator[None]:
    """Silence the resource tracker of multiprocessing, a process that starts within the block.

    If the driver is killed, the tracker removes the semaphores of the workers' queues, and prints a
    warning about each. It inherits this interpreter's warning options, so an option disables the
    warnings.
    """
    option = "ignore:resource_tracker"
    sys.warnoptions.append(option)
    try:
        yield
    finally:
        sys.warnoptions.remove(option)


@contextmanager
def _nanny_that_stops(started: "list[Nanny]") -> "Iterator[type[Nanny]]":
    """Yield the class that starts and replaces workers within the block.

    Each object of the class adds itself to `started` when it starts a worker. If a signal ends the
    block, all workers are killed at once, and none is replaced.
    """
    from distributed import Nanny

    class StoppingNanny(Nanny):
        async def instantiate(self) -> Any:
            if stop_asked():
                self.close_gracefully()
                return self.status
            started.append(self)
            return await super().instantiate()

    try:
        yield StoppingNanny
    except Exception:
        raise  # After an error, closing the cluster ends the workers.
    except BaseException:  # After a signal, kill the workers.
        for nanny in started:
            nanny.close_gracefully()
            if nanny.pid:
                with suppress(ProcessLookupError):  # The worker has already exited.
                    os.kill(nanny.pid, signal.SIGKILL)
        raise


def _run_by_value(
    client: "Client", function: Callable[..., Any], *arguments: Any
) -> dict[str, Any]:
    """Run a function in every worker.

    The function is sent as code. If it were sent by name, a worker could import another module of
    the same name.
    """
    import cloudpickle

    module = sys.modules[function.__module__]
    cloudpickle.register_pickle_by_value(module)
    try:
        return cast(dict[str, Any], client.run(function, *arguments))
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _private_worker(secret_names: tuple[str, ...]) -> "WorkerPlugin":
    """Return the plugin that prepares each worker of the temporary cluster, including replacements.

    Workers ignore Ctrl-C, which a terminal sends to all processes and the driver handles. They drop
    API keys that they do not need.
    """
    from distributed.diagnostics.plugin import WorkerPlugin

    class PrivateWorker(WorkerPlugin):
        name = "parley-private-worker"
        dropped = tuple(
            name for name in os.environ if looks_secret(name) and name not in secret_names
        )

        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            for name in self.dropped:
                os.environ.pop(name, None)

    return PrivateWorker()


def _no_profiler() -> "WorkerPlugin":
    """Return the plugin that stops the profiler of an existing cluster's workers on Python 3.11.

    The profiler inspects the frames of all threads. On Python 3.11 this can deadlock while a thread
    starts (cpython#106883), and shards start threads. Workers of the temporary cluster have no
    profiler.
    """
    from distributed.diagnostics.plugin import WorkerPlugin

    class NoProfiler(WorkerPlugin):
        name = "parley-no-profiler"

        def setup(self, worker: Any) -> None:
            if sys.version_info < (3, 12):
                for part in ("profile", "profile-cycle"):
                    callback = worker.periodic_callbacks.pop(part, None)
                    if callback is not None and callback.is_running():
                        callback.stop()

    return NoProfiler()


def _relax_dead_worker() -> "SchedulerPlugin":
    """Return the plugin that lets new workers run shards that were assigned to a dead worker.

    Without it, Dask would wait forever if all workers died at once.
    """
    from distributed.diagnostics.plugin import SchedulerPlugin

    class AnyWorkerWillDo(SchedulerPlugin):
        name = "parley-any-worker-will-do"

        def add_worker(self, scheduler: Any, worker: str) -> None:
            for task in scheduler.unrunnable:
                if task.loose_restrictions:
                    task.worker_restrictions = None

    return AnyWorkerWillDo()
