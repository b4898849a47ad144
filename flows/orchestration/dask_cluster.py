"""Offers the Dask cluster that runs shards: a temporary one on this machine, or the one that PARLEY_DASK_ADDRESS names.

Workers of the temporary cluster are children of the driver. Each watches a pipe that the driver holds open (distributed's own
`AsyncProcess`) and exits when it closes, so a SIGKILL of the driver leaves none behind.
"""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flows.orchestration import packages
from flows.orchestration.packages import verify_packages as verify_packages
from flows.orchestration.processes import hidden_secrets, looks_secret
from schemas.errors import ConfigError, ServerUnavailable
from tasks.driver.signals import stop_asked

if TYPE_CHECKING:
    from distributed import Client, Nanny
    from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin

ADDRESS_VARIABLE = "PARLEY_DASK_ADDRESS"
_ADDRESS = re.compile(
    r"((tcp|tls|ws|wss|ucx|ucxx)://)?(\[[0-9A-Fa-f:.%]+\]|[^\s/:@\[\]]+):[0-9]{1,5}/?"
)
CONNECT_LIMIT_S = 15
START_LIMIT_S = 120
QUIET = {
    "distributed.admin.tick.limit": "1h",
    "distributed.diagnostics.nvml": False,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.low-level-log-length": 0,
}
"""No warnings about a busy loop, no look for GPUs; no profiler and few looks at the system, which cost CPU all through a run.
No log of messages either: client and scheduler, both in the driver, would keep the last 1,000 with all dialogues in them."""


def named_address() -> str | None:
    """Address of the cluster that PARLEY_DASK_ADDRESS names; None where the night is to have one of its own.

    Raises:
        ConfigError: no address of a scheduler. Dask's client would leave half a connection behind, and wait for its end.
    """
    address = os.environ.get(ADDRESS_VARIABLE)
    if address and not _ADDRESS.fullmatch(address):
        raise ConfigError(
            f"{ADDRESS_VARIABLE}={address!r} is not the address of a Dask scheduler: give tcp://HOST:PORT (or tls:// or the"
            " like), as `dask scheduler` prints it, or unset it to use this machine"
        )
    return address or None


@contextmanager
def dask_cluster(
    *, n_workers: int, threads_per_worker: int, scratch: Path, secret_names: tuple[str, ...] = ()
) -> "Iterator[Client]":
    """A client with ready workers: of the cluster that PARLEY_DASK_ADDRESS names, else of a new one that ends with the block.

    Args:
        n_workers: processes of the new cluster, 1 or more; a named cluster keeps its own.
        threads_per_worker: tasks that each may have in flight, 1 or more.
        scratch: folder for the new workers' files.
        secret_names: variables that new workers keep although they look like keys (workers call the models).

    Raises:
        ServerUnavailable: the named cluster does not answer or has no workers, or a new one did not start.
        ConfigError: workers would import other packages than this distribution's, or another version of it; or no address.
    """
    address = named_address()
    with (
        _named_cluster(address)
        if address
        else _local_cluster(n_workers, threads_per_worker, scratch, secret_names) as client
    ):
        yield client


def warm(client: "Client", modules: tuple[str, ...]) -> None:
    """Import `modules` in every worker, so that the first shard does not wait for it.

    Raises:
        ServerUnavailable: a module cannot be imported there.
    """
    try:
        _run_by_value(client, packages.import_modules, modules)
    except ImportError as error:
        raise ServerUnavailable(
            f"a Dask worker cannot import {error.name!r} ({error}); install the same wheel there"
        ) from error


@contextmanager
def _local_cluster(
    n_workers: int, threads_per_worker: int, scratch: Path, secret_names: tuple[str, ...]
) -> "Iterator[Client]":
    import logging

    import dask.config
    from distributed import Client, LocalCluster

    packages.verify_packages()
    scratch.mkdir(parents=True, exist_ok=True)
    logging.getLogger("distributed").setLevel(
        logging.CRITICAL
    )  # for good: what closes after the cluster would tell of it
    with (
        dask.config.set({**QUIET, "temporary-directory": str(scratch)}),
        ExitStack() as stack,
        _ending_at_once() as nanny,
    ):
        try:
            with hidden_secrets(secret_names), _silent_tracker():
                cluster = LocalCluster(
                    n_workers=n_workers,
                    threads_per_worker=threads_per_worker,
                    worker_class=nanny,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                    local_directory=str(scratch),
                    silence_logs=logging.CRITICAL,
                )
                client = stack.enter_context(
                    Client(
                        stack.enter_context(cluster), timeout=START_LIMIT_S, set_as_default=False
                    )
                )
                client.wait_for_workers(n_workers, timeout=START_LIMIT_S)
        except (OSError, RuntimeError, TimeoutError) as error:
            raise ServerUnavailable(
                f"the Dask cluster of {n_workers} workers on this machine did not start: {error}. "
                f"Check memory and the space at {scratch}, or ask for fewer workers"
            ) from error
        for worker, found in _run_by_value(client, packages.locate_packages).items():
            packages.judge_packages(f"Dask worker {worker}", found, packages.ROOT)
        client.register_plugin(_private_worker(secret_names))
        client.register_plugin(_any_worker_will_do())
        yield client


@contextmanager
def _named_cluster(address: str) -> "Iterator[Client]":
    import dask.config
    from distributed import Client

    remedy = f"start it (`dask scheduler`, `dask worker`), or unset {ADDRESS_VARIABLE} to use this machine"
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
            packages.judge_worker(worker, there)
        client.register_plugin(_no_profiler())
        client.register_plugin(_any_worker_will_do())
        yield client


@contextmanager
def _silent_tracker() -> Iterator[None]:
    """Workers' queues hold semaphores, which a process of multiprocessing's removes after a driver that ended at once.

    It is started here, with this interpreter's options. Without this one it would warn of each such end.
    """
    option = "ignore:resource_tracker"
    sys.warnoptions.append(option)
    try:
        yield
    finally:
        sys.warnoptions.remove(option)


@contextmanager
def _ending_at_once() -> "Iterator[type[Nanny]]":
    """What starts workers and replaces dead ones, for the time of the block. A signal ends them at once, and none is replaced."""
    from distributed import Nanny

    started: list[Nanny] = []

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
        raise  # a fault: the cluster's own end closes its workers
    except BaseException:  # a signal: they end at once
        for nanny in started:
            nanny.close_gracefully()
            if nanny.pid:
                with suppress(ProcessLookupError):  # it has ended by itself
                    os.kill(nanny.pid, signal.SIGKILL)
        raise


def _run_by_value(
    client: "Client", function: Callable[..., Any], *arguments: Any
) -> dict[str, Any]:
    """Run a function in every worker. It is sent as code: by name, a worker might find somebody else's module."""
    import cloudpickle

    module = sys.modules[function.__module__]
    cloudpickle.register_pickle_by_value(module)
    try:
        return cast(dict[str, Any], client.run(function, *arguments))
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _private_worker(secret_names: tuple[str, ...]) -> "WorkerPlugin":
    """Prepares each worker of the temporary cluster at its start, also one that replaces a dead one.

    It leaves Ctrl-C to the driver (a terminal sends it to all), and drops keys that it does not need.
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
    """Switches off, until they start anew, the profiler of workers that somebody else started with Python 3.11.

    It looks at the frames of all threads. While another thread begins, this can stop such a Python for ever (cpython#106883), and
    shards begin threads. Workers of the temporary cluster have no profiler.
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


def _any_worker_will_do() -> "SchedulerPlugin":
    """Send a shard that prefers a dead worker to the next one. Dask would let it wait for ever where all were dead at once."""
    from distributed.diagnostics.plugin import SchedulerPlugin

    class AnyWorkerWillDo(SchedulerPlugin):
        name = "parley-any-worker-will-do"

        def add_worker(self, scheduler: Any, worker: str) -> None:
            for task in scheduler.unrunnable:
                if task.loose_restrictions:
                    task.worker_restrictions = None

    return AnyWorkerWillDo()
