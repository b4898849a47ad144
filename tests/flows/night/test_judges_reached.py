"""Judges are reached where a judgement is pending, and only then: a rerun starts no model server that
nothing asks.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows.evaluate_model import evaluate_model
from flows.night.session import Session
from flows.orchestration.settings import changed_environment, client_settings
from schemas.errors import CorruptRows
from schemas.run import ModelEndpoint
from tasks.benchmarks.registry import BENCHMARKS
from tasks.converse import ConverseStage, context_for
from tasks.driver.judging import Judgements, judge_context
from tasks.judge import judging_ahead
from tasks.language.access import ModelAccess
from tasks.planning.plan import plan_run
from tasks.planning.reporting.report import RunReport
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.stage import run_stage
from tasks.storage.home import Home
from tasks.worker.jobs import ShardResult
from tasks.worker.process import this_worker
from tests.faults.nights import local_client
from tests.fixtures.model_server import ModelServer, model_server
from tests.flows.night.test_resume import wait_until
from tests.tasks.benchmarks import judged
from tests.tasks.benchmarks.judged import CLEAR, GOOD, N_DIALOGS, N_ROUNDS
from tests.tasks.staged_plan import stage

pytestmark = pytest.mark.slow
SUBJECT, JUDGE = "tests/subject", "tests/judge"
N_DISTINCT = (N_DIALOGS - 1) * N_ROUNDS
"""Prompts of the rubric `clear`: two dialogues say the same."""


@pytest.fixture(autouse=True)
def _known_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS.built_in, judged.NAME, f"{judged.__name__}:BENCHMARK")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Subject and judge, who stand behind a server of Parley's own each."""
    with model_server(models=(SUBJECT, JUDGE), max_seconds=300) as found:
        found.answer = lambda messages: GOOD
        yield found


def request() -> EvaluationRequest:
    asked = {name: ModelRequest(spec=f"vllm:{name}", revision="1") for name in (SUBJECT, JUDGE)}
    benchmark = BenchmarkRequest(name="judged.talk", dataset_version="sample")
    return EvaluationRequest(model=asked[SUBJECT], judges={"": asked[JUDGE]}, benchmark=benchmark)


@pytest.mark.long
def test_a_night_starts_the_servers_of_the_models_that_it_asks(
    tmp_path: Path, server_url: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)

    def evaluated() -> tuple[RunReport, set[str], int]:
        """How it ended, whose servers were started, and how often the judge was asked what tells
        its drift.
        """
        started: set[str] = set()

        @contextmanager
        def serve(access: ModelAccess, _: ModelRequest) -> Iterator[ModelEndpoint]:
            started.add(access.identity.name)
            yield ModelEndpoint(base_url=server.base_url)

        n_before = asked_for_drift(server)
        at_server = changed_environment(client_settings(tmp_path / "prefect", server_url))
        with at_server, local_client() as client, Session(home) as session:
            monkeypatch.setattr(session, "_client", client)
            monkeypatch.setattr(session.servers, "_server", serve)
            report = evaluate_model(session, request())
        return report, started, asked_for_drift(server) - n_before

    report, started, n_drift = evaluated()
    assert (report.status, started, n_drift) == ("finished", {SUBJECT, JUDGE}, len(CLEAR.drift))
    n_asked = len(server.bodies)

    plan = plan_run(request(), home)
    shutil.rmtree(plan.lake.folder("scores", **plan.keys))
    report, started, n_drift = evaluated()
    assert (report.status, started, n_drift, len(server.bodies)) == ("finished", set(), 0, n_asked)

    shutil.rmtree(plan.lake.folder("judge_verdicts", **plan.keys))
    report, started, n_drift = evaluated()
    assert (report.status, started, n_drift) == ("finished", {JUDGE}, len(CLEAR.drift))
    assert len(server.bodies) == n_asked + N_DISTINCT + n_drift


def asked_for_drift(server: ModelServer) -> int:
    return sum(
        body["messages"][0]["content"].startswith((f"{CLEAR.prompt} Yes", f"{CLEAR.prompt} No"))
        for body in server.bodies
    )


def test_judgements_of_dialogues_that_are_stopped_are_given_up(
    tmp_path: Path, server: ModelServer
) -> None:
    asked = request().model_copy(
        update={
            "model": ModelRequest(spec="control:gold"),
            "judges": {"": ModelRequest(spec=f"openai:{JUDGE}@{server.base_url}", revision="1")},
        }
    )
    plan = plan_run(asked, Home(tmp_path))
    stage(plan)
    server.holds_after = 0
    with local_client() as client:
        context = judge_context(plan, workers=1)
        judging = judging_ahead(plan, Judgements(plan), context, client)

        def stopped(result: ShardResult) -> None:
            ahead.take(result)
            wait_until(lambda: server.in_flight > 0, 60, "a request to the judge")
            raise CorruptRows("stopped in the middle")

        stage(plan)
        with pytest.raises(CorruptRows), judging as ahead:
            run_stage(ConverseStage(plan, context_for(plan, workers=1, cores=1), client), stopped)
        assert context.key not in this_worker()._open
        assert all(future.cancelled() for future in ahead._under_way)
        server.holds_after = None
