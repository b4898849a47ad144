"""State of one worker process: event loop, open resources of each run, and progress.

The shards of all runs in a process share one event loop and, for each endpoint, one limit of
requests.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar, cast

from sandbox.interface import Sandbox
from schemas.run import EndpointProfile
from tasks.benchmarks.registry import BENCHMARKS
from tasks.language.access import ModelAccess
from tasks.language.chat_model import ChatModel
from tasks.language.embedding import EndpointEmbedder
from tasks.storage.files.environments import Environments
from tasks.storage.files.trees import TreeStore
from tasks.storage.journaling.dialogue_calls import DIALOGUE_CALLS, DialogueCall
from tasks.storage.ledger import SendLog
from tasks.storage.paid_calls import Calls, TalkAnswers
from tasks.storage.parquet_store import Lake
from tasks.storage.vectors import Vectors
from tasks.worker import call_log, collector
from tasks.worker.budget_meter import MeteredEmbedder, metered
from tasks.worker.call_log import logged
from tasks.worker.images import RunImages
from tasks.worker.jobs import Progress, RunContext
from tasks.worker.program_book import (
    ProgramBook,
    ProgramFacts,
    ReportCache,
)
from tasks.worker.workspaces import RunWorkspaces, patch_runner

T = TypeVar("T")


class OpenResource(Protocol):
    """Resource that a worker process holds open, such as a run's models."""

    async def close(self) -> None:
        """Close the resource, on the process's loop."""
        ...


H = TypeVar("H", bound=OpenResource)
PROGRESS_TOPIC = "parley-progress"
_REPORT_EVERY_S = 0.5
_WARM_S = 5.0
"""Seconds from the end of a stage until idle sandboxes end.

The next stage usually starts sooner and reuses the sandboxes.
"""


class RunState:
    """Open resources of one run. All threads may use `program_slots`, `is_playing` and `count`."""

    def __init__(
        self, context: RunContext, reports: ReportCache, count: Callable[..., None]
    ) -> None:
        self.context = context
        self.gate = asyncio.Semaphore(context.concurrency)
        """Limit of the episodes in progress. Begun episodes start before new episodes."""
        self.program_slots = threading.Semaphore(context.programs)
        self._reports, self._count = reports, count
        self._models: dict[ModelAccess, ChatModel] = {}
        self._opened: dict[ModelAccess, ChatModel] = {}
        self._references: dict[str, list[Callable[[int], str | None]]] = {}
        self._stopped: Exception | None = None

    @cached_property
    def calls(self) -> Calls[DialogueCall]:
        """Return the store of the calls of the run's dialogues."""
        folder = self.context.place.journal(self.context.run_id)
        return Calls(folder, DIALOGUE_CALLS, fsync=self.context.fsync, remembers=False)

    @cached_property
    def sends(self) -> SendLog:
        """Return this process's counter of the run's requests."""
        return SendLog(self.context.place.sends(self.context.run_id))

    @cached_property
    def sandbox(self) -> Sandbox:
        """Return the run's sandbox. It may preload the imports of the benchmark's programs."""
        spec = self.context.spec
        programs = BENCHMARKS.load(spec.benchmark).programs
        return programs.load_sandbox(spec.sandbox, spec.dataset_version)

    @cached_property
    def programs(self) -> ProgramBook:
        """Return the `ProgramBook`, which runs each program of the run only once."""
        context = self.context
        return ProgramBook(
            ProgramFacts.of_run(context),
            self.sandbox,
            self._reports,
            context.programs,
            patch_runner(context),
        )

    @cached_property
    def vectors(self) -> Vectors | None:
        """Return the store of text vectors for the run's dialogues; None without an embedder."""
        access = self.context.embedder
        if access is None:
            return None
        lake = Lake(self.context.place.lake, fsync=self.context.fsync)
        embedder, budget_meter = (
            EndpointEmbedder(access.identity, lambda: access, on_send=self.sends.count_embedder),
            self.context.budget_meter,
        )
        return Vectors(lake, MeteredEmbedder(embedder, budget_meter) if budget_meter else embedder)

    @cached_property
    def talk_answers(self) -> TalkAnswers:
        """Return the store of answers that build the agent's memories of long conversations."""
        return TalkAnswers(
            self.context.place.talk_answers(self.context.spec), fsync=self.context.fsync
        )

    @cached_property
    def workspaces(self) -> RunWorkspaces:
        """Return the workspaces of the run's dialogues in this process."""
        place = self.context.place
        environments = Environments(place.environments)
        return RunWorkspaces(
            self.context.spec.sandbox, TreeStore(place.trees), self.context.programs, environments
        )

    @cached_property
    def images(self) -> RunImages:
        """Return the Docker images of the run's episodes in this process."""
        return RunImages(self.context, self._count)

    def model(self, access: ModelAccess, role: str) -> ChatModel:
        """Return the open model of a role (subject or simulator)."""
        from tasks.language.opening import open_model

        if access not in self._models:
            opened = open_model(
                access,
                gold=lambda problem_id, turn: self._references[problem_id][0](turn),
                on_send=self.sends.count,
            )
            self._opened[access] = opened
            self._models[access] = metered(opened, self.context.budget_meter)
        return logged(self._models[access], self.context.calls, role)

    def profiles(self) -> tuple[tuple[str, EndpointProfile], ...]:
        """Return pairs of role and known endpoint properties of the models in use."""
        from tasks.language.opening import profile_of

        profiles: list[tuple[str, EndpointProfile]] = []
        for access, model in tuple(self._opened.items()):
            if (profile := profile_of(model)) is not None:
                profiles += [
                    (role, profile)
                    for role in ("subject", "simulator")
                    if getattr(self.context, role) == access
                ]
        return tuple(profiles)

    @contextmanager
    def knowing(self, problem_id: str, reference: Callable[[int], str | None]) -> Iterator[None]:
        """Give control models a problem's reference answers while its episode is played.

        Args:
            reference: Returns the reference answer of a round (1-based).
        """
        under_way = self._references.setdefault(problem_id, [])
        under_way.append(reference)
        try:
            yield
        finally:
            under_way.pop()
            if not under_way:
                del self._references[problem_id]

    @property
    def is_playing(self) -> bool:
        """Return True while an episode of the run is played in this process."""
        return bool(self._references)

    def stop(self, fault: Exception) -> None:
        """Stop the run in this process, because no message can be stored (full disk)."""
        self._stopped = self._stopped or fault

    def check_not_stopped(self) -> None:
        """Raise the fault that stopped the run in this process."""
        if self._stopped is not None:
            raise self._stopped

    def count(self, stage: str, **amounts: int) -> None:
        """Add numbers to the run's next progress report."""
        self._count(stage, **amounts)

    async def close(self) -> None:
        """Close all models, all stores of calls and the program threads."""
        for model in self._models.values():
            await model.aclose()
        if vars(self).get("vectors") is not None:
            await vars(self)["vectors"].aclose()
        for name in {"programs", "images", "workspaces", "calls", "sends", "talk_answers"} & vars(
            self
        ).keys():
            getattr(self, name).close()


class Worker:
    """State of a worker process, created at its first shard."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[str, OpenResource] = {}
        self._ending = threading.Timer(_WARM_S, self._end_idle_sandboxes)
        """Timer that ends idle sandboxes. It starts at the end of each stage."""
        self._reports = ReportCache()
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the process's loop and wait for it."""
        with self._lock:
            if self._loop is None:
                collector.look_less_often()
                self._loop = _new_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="parley-loop", daemon=True
                ).start()
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    def run(self, context: RunContext) -> RunState:
        """Return a run's state, created at the run's first shard."""
        return self.resource(context.run_id, lambda count: RunState(context, self._reports, count))

    def resource(self, key: str, make: Callable[[Callable[..., None]], H]) -> H:
        """Return the open resource with this key, created at first use.

        Args:
            make: Creates the resource. Its argument is a function that counts progress: it takes
                the stage, and amounts by name.
        """
        with self._lock:
            if key not in self._open:
                self._open[key] = make(partial(self._add, key))
            return cast(H, self._open[key])

    def _add(self, run_id: str, stage: str, **amounts: int) -> None:
        with self._lock:
            for name, amount in amounts.items():
                self._counts[run_id, stage, name] += amount

    def start_reporting(self) -> None:
        """Send progress to the scheduler every half second, if this process is a Dask worker."""
        from distributed import get_worker

        with suppress(ValueError):
            worker = get_worker()
            with self._lock:
                if getattr(self, "_reporter", None) is None:
                    self._reporter = threading.Thread(
                        target=self._report, args=(worker,), name="parley-progress", daemon=True
                    )
                    self._reporter.start()

    def _report(self, dask_worker: Any) -> None:
        pause = threading.Event()
        while not pause.wait(_REPORT_EVERY_S):
            call_log.write_queues()
            for progress in self.take_progress():
                dask_worker.loop.add_callback(
                    dask_worker.log_event, PROGRESS_TOPIC, dict(progress.__dict__)
                )

    def take_progress(self) -> list[Progress]:
        """Return the progress of each run since the last call."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        amounts: dict[tuple[str, str], dict[str, int]] = {}
        for (run_id, stage, name), amount in counts.items():
            amounts.setdefault((run_id, stage), {})[name] = amount
        return [Progress(run_id, stage, **named) for (run_id, stage), named in amounts.items()]

    def close_run(self, run_id: str) -> None:
        """Close a run's resources. Soon afterwards, end idle sandboxes unless a stage begins."""
        with self._lock:
            state = self._open.pop(run_id, None)
        if state is not None:
            self.do(state.close())
        call_log.write_queues()  # A stage may end before the first report.
        with self._lock:
            self._ending.cancel()
            self._ending = threading.Timer(_WARM_S, self._end_idle_sandboxes)
            self._ending.daemon = True
            self._ending.start()

    def _end_idle_sandboxes(self) -> None:
        from sandbox.backends.zygote.pool import close_idle

        with self._lock:
            is_used = bool(self._open)
        if not is_used:
            close_idle()


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop. If uvloop is installed, use it, because it needs less CPU."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_worker: Worker | None = None
_worker_lock = threading.Lock()


def this_worker() -> Worker:
    """Return the state of this process."""
    global _worker
    with _worker_lock:
        if _worker is None:
            _worker = Worker()
        return _worker


def close_run(run_id: str) -> None:
    """Close a run in this process. The driver calls this on every worker."""
    this_worker().close_run(run_id)
