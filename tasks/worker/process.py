"""State of one worker process: its event loop, open models, journal segments and progress.

All shards that a process has in flight share one loop and, for each run, one limit of requests.
"""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from schemas.problem import Problem
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.benchmarks import registry
from tasks.language.chat_model import ChatModel
from tasks.storage.home import Home
from tasks.storage.journal import JournalWriter
from tasks.worker.jobs import Progress, RunContext
from tasks.worker.program_runner import ReportCache, RunPrograms

T = TypeVar("T")
PROGRESS_TOPIC = "parley-progress"
_REPORT_EVERY_S = 0.5


class Worker:
    """One for each process; made at the first shard."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._models: dict[tuple[str, ModelIdentity, ModelEndpoint], ChatModel] = {}
        self._journals: dict[str, JournalWriter] = {}
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._program_slots: dict[str, threading.Semaphore] = {}
        self._programs: dict[str, RunPrograms] = {}
        self._reports = ReportCache()
        self._problems: dict[tuple[str, str], Problem] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._stopped: dict[str, Exception] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the process's loop and wait for it."""
        with self._lock:
            if self._loop is None:
                self._loop = _new_loop()
                threading.Thread(target=self._loop.run_forever, name="parley-loop", daemon=True).start()
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    def journal(self, context: RunContext) -> JournalWriter:
        """The run's journal segment of this process."""
        run_id = context.run_id
        with self._lock:
            if run_id not in self._journals:
                self._journals[run_id] = JournalWriter(Home(Path(context.home)).journal(run_id), fsync=context.fsync)
            return self._journals[run_id]

    def gate(self, context: RunContext) -> asyncio.Semaphore:
        """Bounds the episodes under way, and so the requests: an episode has at most one. Begun episodes go before new ones."""
        with self._lock:
            return self._gates.setdefault(context.run_id, asyncio.Semaphore(context.in_flight))

    def program_slots(self, context: RunContext) -> threading.Semaphore:
        """Bounds the run's programs under way in this process."""
        with self._lock:
            return self._program_slots.setdefault(context.run_id, threading.Semaphore(context.programs))

    def programs(self, context: RunContext) -> RunPrograms:
        """Runs the programs that the run's dialogues want, for all of its shards in this process."""
        with self._lock:
            if context.run_id not in self._programs:
                slots, run_id = self.program_slots(context), context.run_id

                def count(amount: int) -> None:
                    self.count(run_id, "converse", programs=amount)

                self._programs[run_id] = RunPrograms(context, slots, self._reports, count)
            return self._programs[context.run_id]

    def model(self, context: RunContext, identity: ModelIdentity, endpoint: ModelEndpoint) -> ChatModel:
        """The open model of a run, made at first use. Call it on the loop."""
        from tasks.language.opening import open_model

        key = (context.run_id, identity, endpoint)
        with self._lock:
            if key not in self._models:
                self._models[key] = open_model(
                    identity,
                    endpoint,
                    concurrency=context.in_flight,
                    gold=self._gold(context),
                    check_served_model=context.check_served_model,
                    timeout_s=context.timeout_s,
                    patience_s=context.patience_s,
                )
            return self._models[key]

    def _gold(self, context: RunContext) -> Any:
        benchmark, run_id = registry.load(context.spec.benchmark), context.run_id
        return lambda problem_id, turn: benchmark.play.gold_answer(self._problems[run_id, problem_id], turn)

    def stop(self, run_id: str, fault: Exception) -> None:
        """Stop the run in this process: no message can be kept (a full disk), so no dialogue of it may ask for more."""
        self._stopped.setdefault(run_id, fault)

    def check_not_stopped(self, run_id: str) -> None:
        """Raise what stopped the run in this process."""
        if run_id in self._stopped:
            raise self._stopped[run_id]

    def learn(self, context: RunContext, problem: Problem) -> None:
        """Make a problem's reference known to the controls."""
        self._problems[context.run_id, problem.problem_id] = problem

    def count(self, run_id: str, stage: str, **amounts: int) -> None:
        """Add to the next progress report."""
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
        """Close everything that a run held open, and end the warm sandboxes that no program uses now."""
        from sandbox.backends.zygote.pool import close_idle

        with self._lock:
            models = [self._models.pop(key) for key in list(self._models) if key[0] == run_id]
            journal = self._journals.pop(run_id, None)
            self._gates.pop(run_id, None)
            self._stopped.pop(run_id, None)
            self._program_slots.pop(run_id, None)
            programs = self._programs.pop(run_id, None)
            for key in [key for key in self._problems if key[0] == run_id]:
                del self._problems[key]
        for model in models:
            self.run(model.aclose())
        if programs is not None:
            programs.close()
        if journal is not None:
            journal.close()
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
