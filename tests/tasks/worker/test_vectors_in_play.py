"""A participant asks for vectors: it shares the run's embedder, its identity is in the episode's id, and
nothing is embedded twice.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.run import ModelEndpoint
from tasks.benchmarks.registry import BENCHMARKS
from tasks.converse import ConverseStage, context_for
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.stage import run_stage
from tasks.storage.home import Home
from tasks.storage.run_rows import read_episodes
from tests.faults.nights import local_client
from tests.fixtures.embedding_server import MODEL, EmbeddingServer, embedding_server
from tests.tasks.benchmarks.alike import NAME, WEATHER
from tests.tasks.staged_plan import stage


@pytest.fixture(autouse=True)
def _known_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS.built_in, NAME, "tests.tasks.benchmarks.alike:BENCHMARK")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with local_client() as found:
        yield found


def plan_of(home: Path, setting: str, revision: str = "1") -> RunPlan:
    embedder = ModelRequest(spec=f"openai:{MODEL}@http://127.0.0.1:9/v1", revision=revision)
    benchmark = BenchmarkRequest(name=f"{NAME}.{setting}")
    gold = ModelRequest(spec="control:gold")
    return plan_run(
        EvaluationRequest(model=gold, benchmark=benchmark, sandbox="none", embedder=embedder),
        Home(home),
    )


def play(plan: RunPlan, client: Any, server: EmbeddingServer) -> None:
    assert plan.embedder is not None
    access = plan.embedder.at(ModelEndpoint(base_url=server.base_url))
    stage(plan)
    done = run_stage(
        ConverseStage(plan, context_for(plan, workers=1, cores=1, embedder=access), client)
    )
    assert (done.n_pending, done.error) == (0, None)


def test_a_participant_finds_vectors_and_a_later_run_asks_for_none_of_them(
    tmp_path: Path, client: Any
) -> None:
    with embedding_server() as server:
        plan = plan_of(tmp_path, "worded")
        play(plan, client, server)
        said = [
            e.steps[0].content
            for e in read_episodes(plan.lake, NAME, plan.spec.label, _ids(plan)).values()
        ]
        assert len(said) == 2
        assert set(said) <= {
            WEATHER,
            *(f"Please. {problem.prompt}" for problem in plan.problems.values()),
        }
        assert len(server.texts) == 5
        other = plan_of(tmp_path, "worded")
        other.run_id = "another"
        assert not other.pending()
    assert set(server.texts.values()) == {1}
    assert len(plan.lake.parts("embeddings")) == 1


def _ids(plan: RunPlan) -> list[str]:
    return plan.members.ids.to_pylist()


def test_an_embedder_is_in_episode_ids_only_where_a_participant_asks_for_it(tmp_path: Path) -> None:
    ids = {(s, r): plan_of(tmp_path, s, r) for s in ("ask", "worded") for r in ("1", "2")}
    assert ids["ask", "1"].run_id != ids["ask", "2"].run_id
    assert _ids(ids["ask", "1"]) == _ids(ids["ask", "2"])
    assert not set(_ids(ids["worded", "1"])) & set(_ids(ids["worded", "2"]))
    assert plan_of(tmp_path, "plain").spec.embedder is None
