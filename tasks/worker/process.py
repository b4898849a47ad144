"""State of one worker process: its event loop, what each run holds open in it, and progress.

All shards that a process has under way share one loop and, for each endpoint, one limit of requests, whichever run they are of.
"""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar, cast

from schemas.problem import Problem
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.benchmarks import registry
from tasks.language.chat_model import ChatModel
from tasks.language.embedding import open_embedder
from tasks.storage.files.environments import Environments
from tasks.storage.files.trees import TreeStore
from tasks.storage.journaling.journal import JournalWriter
from tasks.storage.parquet_store import Lake
from tasks.storage.vectors import Vectors
from tasks.worker import collector
from tasks.worker.jobs import Progress, RunContext
from tasks.worker.program_runner import ReportCache, RunPrograms
from tasks.worker.purse import MeteredEmbedder, metered
from tasks.worker.workspaces import RunWorkspaces

T = TypeVar("T")


class Held(Protocol):
    """What a process holds open until it is closed."""

    async def close(self) -> None:
        """Let go of it, on the process's loop."""
        ...


H = TypeVar("H", bound=Held)
PROGRESS_TOPIC = "parley-progress"
_REPORT_EVERY_S = 0.5


class RunState:
    """What one run holds open in this process. All but `program_slots` and `count` is for the process's loop alone."""

    def __init__(self, context: RunContext, reports: ReportCache, count: Callable[..., None]) -> None:
        self.context = context
        self.gate = asyncio.Semaphore(context.concurrency)
        """Bounds the episodes under way. Begun episodes go before new ones."""
        self.program_slots = threading.Semaphore(context.programs)
        self._reports, self._count = reports, count
        self._models: dict[tuple[ModelIdentity, ModelEndpoint], ChatModel] = {}
        self._problems: dict[str, Problem] = {}
        self._stopped: Exception | None = None

    @cached_property
    def journal(self) -> JournalWriter:
        """Where this process writes what the run's models say."""
        return JournalWriter(self.context.place.journal(self.context.run_id), fsync=self.context.fsync)

    @cached_property
    def programs(self) -> RunPrograms:
        """Runs the programs that the run's dialogues want, for all of its shards in this process."""
        return RunPrograms(self.context, self.program_slots, self._reports, lambda n: self.count("converse", programs=n))

    @cached_property
    def vectors(self) -> Vectors | None:
        """The vectors that the run's seats ask for."""
        access = self.context.embedder
        if access is None:
            return None
        lake = Lake(self.context.place.lake, fsync=self.context.fsync)
        embedder, purse = open_embedder(access.identity, lambda: access), self.context.purse
        return Vectors(lake, MeteredEmbedder(embedder, purse) if purse else embedder)

    @cached_property
    def workspaces(self) -> RunWorkspaces:
        """Opens workspaces for the run's dialogues, for all of its shards in this process."""
        place = self.context.place
        environments = Environments(place.environments)
        return RunWorkspaces(self.context.spec.sandbox, TreeStore(place.trees), self.context.programs, environments)

    def model(self, identity: ModelIdentity, endpoint: ModelEndpoint, concurrency: int) -> ChatModel:
        """The open model, made at first use. It asks at most `concurrency` requests of its endpoint at once."""
        from tasks.language.opening import open_model

        if (identity, endpoint) not in self._models:
            benchmark = registry.load(self.context.spec.benchmark)
            opened = open_model(
                identity,
                endpoint,
                concurrency=concurrency,
                gold=lambda problem_id, turn: benchmark.play.gold_answer(problem=self._problems[problem_id], turn=turn),
                check_served_model=self.context.check_served_model,
                timeout_s=self.context.timeout_s,
                patience_s=self.context.patience_s,
            )
            self._models[identity, endpoint] = metered(opened, self.context.purse)
        return self._models[identity, endpoint]

    def learn(self, problem: Problem) -> None:
        """Make a problem's reference known to the controls."""
        self._problems[problem.problem_id] = problem

    def stop(self, fault: Exception) -> None:
        """Stop the run in this process: no message can be kept (a full disk), so no dialogue of it may ask for more."""
        self._stopped = self._stopped or fault

    def check_not_stopped(self) -> None:
        """Raise what stopped the run in this process."""
        if self._stopped is not None:
            raise self._stopped

    def count(self, stage: str, **amounts: int) -> None:
        """Add to what the next progress report says of the run."""
        self._count(stage, **amounts)

    async def close(self) -> None:
        """Close every open model, journal and program thread."""
        for model in self._models.values():
            await model.aclose()
        if vars(self).get("vectors") is not None:
            await vars(self)["vectors"].aclose()
        for name in {"programs", "workspaces", "journal"} & vars(self).keys():
            getattr(self, name).close()


class Worker:
    """One for each process; made at the first shard."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: dict[str, Held] = {}
        self._reports = ReportCache()
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the process's loop and wait for it."""
        with self._lock:
            if self._loop is None:
                collector.look_less_often()
                self._loop = _new_loop()
                threading.Thread(target=self._loop.run_forever, name="parley-loop", daemon=True).start()
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    def run(self, context: RunContext) -> RunState:
        """A run's state, made at its first shard."""
        return self.held(context.run_id, lambda count: RunState(context, self._reports, count))

    def held(self, key: str, make: Callable[[Callable[..., None]], H]) -> H:
        """What the process holds open under this name, made at first use.

        Args:
            make: is given the function that counts progress: (stage, amounts by name).
        """
        with self._lock:
            if key not in self._held:
                self._held[key] = make(partial(self._add, key))
            return cast(H, self._held[key])

    def _add(self, run_id: str, stage: str, **amounts: int) -> None:
        with self._lock:
            for name, amount in amounts.items():
                self._counts[run_id, stage, name] += amount

    def start_reporting(self) -> None:
        """From now on send progress to the scheduler every half second, if this process is a Dask worker."""
        from distributed import get_worker

        with contextlib.suppress(ValueError):
            worker = get_worker()
            with self._lock:
                if getattr(self, "_reporter", None) is None:
                    self._reporter = threading.Thread(target=self._report, args=(worker,), name="parley-progress", daemon=True)
                    self._reporter.start()

    def _report(self, dask_worker: Any) -> None:
        pause = threading.Event()
        while not pause.wait(_REPORT_EVERY_S):
            for progress in self.take_progress():
                dask_worker.loop.add_callback(dask_worker.log_event, PROGRESS_TOPIC, dict(progress.__dict__))

    def take_progress(self) -> list[Progress]:
        """The counts since the last call."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        amounts: dict[tuple[str, str], dict[str, int]] = {}
        for (run_id, stage, name), amount in counts.items():
            amounts.setdefault((run_id, stage), {})[name] = amount
        return [Progress(run_id, stage, **named) for (run_id, stage), named in amounts.items()]

    def close_run(self, run_id: str) -> None:
        """Close what is held open under this name; after the last, end the warm sandboxes that no program uses now."""
        from sandbox.backends.zygote.pool import close_idle

        with self._lock:
            state = self._held.pop(run_id, None)
            is_last = not self._held
        if state is not None:
            self.do(state.close())
        if is_last:  # other runs under way use them in a moment
            close_idle()


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where there is one: it leaves more of the processor to the dialogues."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_worker: Worker | None = None
_worker_lock = threading.Lock()


def this_worker() -> Worker:
    """The state of this process."""
    global _worker
    with _worker_lock:
        if _worker is None:
            _worker = Worker()
        return _worker


def close_run(run_id: str) -> None:
    """End of a run in this process (called on every worker by the driver)."""
    this_worker().close_run(run_id)
