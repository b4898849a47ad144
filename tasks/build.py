"""Build of a dataset (model calls and programs), on an event loop in the driver."""

import asyncio
import threading
import traceback
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from schemas.errors import ParleyError, UsageError
from schemas.outside.display import plain_line
from schemas.run import EmbedderIdentity, ModelEndpoint, ModelIdentity
from tasks.benchmarks.advanced import Constructed, ConstructionRequest
from tasks.driver.signals import heed_signals
from tasks.driver.stored_calls import ReusingModel, StoredCalls, open_build_book
from tasks.language.access import ModelAccess
from tasks.language.chat_model import ChatModel
from tasks.language.embedding import EndpointEmbedder
from tasks.language.opening import open_model
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.participants.models import access_in_worker
from tasks.storage.parquet_store import Lake
from tasks.storage.vectors import Vectors
from tasks.worker.budget_meter import BudgetMeter, MeteredEmbedder, metered
from tasks.worker.program_book import BookReader, ProgramBook


def construct(
    plan: BuildPlan,
    calls: StoredCalls,
    find_served: Callable[[], Mapping[ModelIdentity, ModelEndpoint]],
    find_embedder: Callable[[], ModelAccess[EmbedderIdentity]],
    budget_meter: BudgetMeter | None = None,
) -> Constructed:
    """Run the construction. Each answer and verdict is stored as it arrives, and reused.

    Args:
        find_served: Starts the models' servers and returns their endpoints. Called at the first
            answer that is not stored, so that a complete build starts nothing.
        find_embedder: Starts the embedder's server if needed and returns the access to it. Called
            like `find_served`.
        budget_meter: Meter that enforces the budget caps of the invocation; None without caps.

    Raises:
        InfraError: An endpoint or the sandbox failed.
        BudgetSpent: A cap is reached.
        ParleyError: The construction failed.
    """
    loop = OwnLoop()
    models = {
        role.role: ReusingModel(
            role.model,
            role.role,
            calls,
            _opener(plan, place, lambda: loop.in_main_thread(find_served), budget_meter),
        )
        for place, role in enumerate(plan.spec.roles)
    }
    book = open_build_book(plan, calls) if plan.construction.runs_programs else None
    vectors = None
    if plan.spec.embedder is not None:
        access = EndpointEmbedder(plan.spec.embedder, lambda: loop.in_main_thread(find_embedder))
        vectors = Vectors(
            Lake(plan.home.lake), MeteredEmbedder(access, budget_meter) if budget_meter else access
        )
    request = ConstructionRequest(
        staged=plan.staged,
        models=models,
        sampling={role.role: role.sampling for role in plan.spec.roles},
        options=plan.options,
        programs=BookReader(lambda: _require_book(plan, book), count=calls.count_program),
        embedder=vectors,
        limit=plan.request.limit,
        resources={name: Path(place) for name, place in plan.request.resources.items()},
    )
    try:
        return loop.run(_constructed(plan, request, calls, book, models, vectors))
    finally:
        if book is not None:
            book.close()
        calls.close()


def _require_book(plan: BuildPlan, book: ProgramBook | None) -> ProgramBook:
    if book is None:
        raise UsageError(
            f"{plan.request.what} has a program run: its construction must say runs_programs=True"
        )
    return book


def _opener(
    plan: BuildPlan,
    place: int,
    find_served: Callable[[], Mapping[ModelIdentity, ModelEndpoint]],
    budget_meter: BudgetMeter | None,
) -> Callable[[], ChatModel]:
    access = plan.models[place].access
    problems = {problem.problem_id: problem for problem in plan.staged.problems}

    def opened() -> ChatModel:
        model = open_model(
            access_in_worker(plan.models, access, find_served(), workers=1),
            gold=lambda problem_id, turn: plan.benchmark.play.gold_answer(
                problems[problem_id], turn
            ),
        )
        return metered(model, budget_meter)

    return opened


async def _constructed(
    plan: BuildPlan,
    request: ConstructionRequest,
    calls: StoredCalls,
    book: ProgramBook | None,
    models: Mapping[str, ReusingModel],
    vectors: Vectors | None,
) -> Constructed:
    try:
        return await plan.construction.construct(request)
    except (
        Exception
    ) as error:  # A plug-in's construction may raise any exception. It is named below.
        await asyncio.gather(calls.drain(), book.drain() if book else asyncio.sleep(0))
        own = _own(error)
        if own is not None:
            raise own from None  # The error is the cause itself, or one of its group.
        raise _failure(error, plan.request.what) from error
    finally:
        for model in models.values():
            await model.aclose()
        if vectors is not None:
            await vectors.aclose()


def _failure(error: BaseException, what: str) -> ParleyError:
    """Return a ParleyError of one line that names the exception and its file, line and function."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    place = traceback.extract_tb(error.__traceback__)[-1]
    message = plain_line(f"{type(error).__name__}: {error}")
    return ParleyError(
        f"{what}: its construction failed ({message}, in {place.name} of "
        f"{Path(place.filename).name}:{place.lineno}). All answers are stored"
    )


def _own(error: BaseException) -> ParleyError | OSError | None:
    """Return the first ParleyError or OSError in an exception group; None if there is none."""
    if isinstance(error, (ParleyError, OSError)):
        return error
    within = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((own for inner in within if (own := _own(inner)) is not None), None)


T = TypeVar("T")
_HEED_EVERY_S = 0.2
_END_LIMIT_S = 3.0


class OwnLoop:
    """Runner of one coroutine in a separate thread.

    The main thread starts the model servers that the coroutine needs, because the operating system
    kills a server when the thread that started the server ends.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._errands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._waits: Future[Any] = Future()
        """Result of the function in the main thread that the loop waits for."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine to its end while the main thread waits.

        Raises:
            SystemExit, KeyboardInterrupt: A signal was received. The coroutine was cancelled.
        """
        thread = threading.Thread(
            target=self._loop.run_forever, name="parley-build-loop", daemon=True
        )
        thread.start()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.add_done_callback(lambda _: self._errands.put(lambda: None))
        try:
            while not future.done():
                heed_signals()
                with suppress(Empty):
                    self._errands.get(timeout=_HEED_EVERY_S)()
            return future.result()
        finally:
            self._waits.cancel()
            future.cancel()
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(_cancel_rest(), self._loop).result(_END_LIMIT_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(_END_LIMIT_S)
            if not thread.is_alive():
                self._loop.close()

    def in_main_thread(self, errand: Callable[[], T]) -> T:
        """Run a function in the main thread and wait for its result. Call this on the loop."""
        answer: Future[T] = Future()
        self._waits = answer

        def do() -> None:
            try:
                answer.set_result(errand())
            except Exception as error:  # noqa: BLE001  (raised again where it was asked for)
                answer.set_exception(error)
            except BaseException:
                answer.cancel()
                raise

        self._errands.put(do)
        return answer.result()


async def _cancel_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for left in rest:
        left.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
