"""A night in this process: the product's own stages, gate, records and publication, without server
and worker processes.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from flows import evaluate_model as evaluation
from flows.night import stages
from flows.night.reporting.progress import Board
from flows.night.run_queue import only_run
from flows.night.session import Session
from schemas.errors import ParleyError
from schemas.lake.records import QualityCheck
from tasks import check_quality
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.reporting.publishing import publish_to_warehouse
from tasks.planning.reporting.report import RunReport, as_published, finished_report
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.stage import run_stage
from tasks.storage.home import Home
from warehouse.checks import CheckContext, check_table
from warehouse.publication.publish import PublishReport

Between = Callable[[RunPlan], None]
"""What happens to the lake between two stages."""


def request(model: str, **benchmark: Any) -> EvaluationRequest:
    """The bundled sample's first three dialogues, two samples of each."""
    asked: dict[str, Any] = {
        "name": "codeif.static",
        "dataset_version": "sample",
        "limit": 3,
        "samples": 2,
        **benchmark,
    }
    return EvaluationRequest(model=ModelRequest(spec=model), benchmark=BenchmarkRequest(**asked))


class Threads:
    """A Dask client's part in a night, by threads of this process."""

    status = "running"
    loop = None

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(4)

    def map(self, function: Callable[[Any], Any], shards: Sequence[Any]) -> list[Any]:
        return list(self._pool.map(function, shards))

    def submit(self, function: Callable[[Any], Any], shard: Any, **_: Any) -> Any:
        return self._pool.submit(function, shard)

    def cancel(self, futures: Sequence[Any], *, force: bool) -> None:
        for future in futures:
            future.cancel()

    def nthreads(self) -> dict[str, int]:
        return {"here": 4}

    def run(self, function: Callable[..., Any], *arguments: Any) -> None:
        function(*arguments)

    def close(self) -> None:
        self._pool.shutdown()


class _LocalSession(Session):
    """Its cluster is this process."""

    def __init__(self, home: Home) -> None:
        super().__init__(home, Board())
        self._threads = Threads()

    def client(self) -> Any:
        return self._threads

    @property
    def n_workers(self) -> int:
        return 1

    def close(self) -> None:
        self._threads.close()


def _fan_out(
    client: Threads, function: Callable[[Any], Any], shards: Sequence[Any], on_result: Any, **_: Any
) -> Any:
    results = client.map(function, shards)
    for result in results:
        on_result(result)
    return results, []


class _NoBar:
    """In the place of a progress bar in the UI that does not run."""

    def __init__(self, *_: Any) -> None: ...

    def advance(self, _: int) -> None: ...

    def done(self) -> None: ...


def _run_task(_: str, __: str, work: Callable[[], Any], **___: Any) -> Any:
    return work()


def _run_stage(stage: Any, _: str, on_result: Any = lambda _: None) -> Any:
    return run_stage(stage, on_result)


@pytest.fixture(scope="module")
def without_prefect() -> Iterator[None]:
    """The flow's tasks as the plain functions that they wrap; shards run in threads."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (stages, check_quality):
            patch.setattr(module, "run_task", _run_task)
        patch.setattr(stages, "run_stage_task", _run_stage)
        patch.setattr(stages, "ProgressArtifact", _NoBar)
        patch.setattr("tasks.stage.fan_out", _fan_out)
        yield


@contextmanager
def only(*tables: str) -> Iterator[None]:
    """Check these tables alone: the others are as they were when they passed, and most of a night's
    time is theirs. No pages.
    """

    def check(_: Session, table: str, data: Any, context: CheckContext) -> list[QualityCheck]:
        return check_table(table, data, replace(context, docs_dir=None)) if table in tables else []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "check_table", check)
        yield


@dataclass
class Told:
    """What a night said of its runs, and of its publication."""

    reports: list[RunReport] = field(default_factory=list[RunReport])
    errors: list[ParleyError] = field(default_factory=list[ParleyError])
    published: PublishReport | None = None


@contextmanager
def between(changes: dict[str, Between]) -> Iterator[None]:
    """Do something after a stage has written and before what follows has read: `stage`, `converse`,
    `execute` or `score`.
    """
    with pytest.MonkeyPatch.context() as patch:
        for stage, change in changes.items():
            # where nothing is pending the task itself is left out, and `play` is there all the same
            where, name = {
                "stage": (stages.Stages, "stage"),
                "converse": (stages.Stages, "play"),
                "execute": (stages, "run_stage_task"),
            }.get(stage, (stages, stage))
            right = getattr(where, name)

            def then(
                *arguments: Any, stage: str = stage, right: Any = right, change: Between = change
            ) -> Any:
                made = right(*arguments)
                if getattr(arguments[0], "name", stage) != stage:  # the task of another stage
                    return made
                plans = (
                    a._plan if isinstance(a, stages.Stages) else getattr(a, "plan", a)
                    for a in arguments
                )
                change(next(a for a in plans if isinstance(a, RunPlan)))
                return made

            patch.setattr(where, name, then)
        yield


def night(
    home: Path, *requests: EvaluationRequest, before_publication: Between | None = None
) -> Told:
    """Evaluate and publish as `flows.nightly` does: a run that fails does not keep the others from
    being published.
    """
    told, session = Told(), _LocalSession(Home(home))
    plans: list[RunPlan] = []
    try:
        for asked in requests:
            try:
                plan = plan_run(asked, session.home)
                plans.append(plan)
                told.reports.append(
                    finished_report(plan)
                    if plan.is_finished()
                    else evaluation._evaluate(session, plan, only_run())
                )
            except ParleyError as error:
                told.errors.append(error)
        if before_publication is not None:
            for plan in plans:
                before_publication(plan)
        told.published = publish_to_warehouse(
            session.home, [report.run_id for report in told.reports]
        )
        told.reports = as_published(session.home, told.reports)
    except ParleyError as error:
        told.errors.append(error)
    finally:
        session.close()
    return told
