"""A night stops cleanly at its caps: nothing new is asked, what is whole is published, the same
command goes on and pays once.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from flows.evaluate_model import evaluate_model
from flows.night.serving import ServerHours
from flows.night.session import Session
from flows.night.spending import require_prices
from flows.orchestration.settings import changed_environment, client_settings
from schemas.dialog import Role
from schemas.episode import Episode
from schemas.errors import ConfigError
from schemas.night.budget import Budget
from schemas.run import ModelEndpoint
from tasks.benchmarks.registry import BENCHMARKS
from tasks.language.access import ModelAccess
from tasks.planning.plan import plan_run
from tasks.planning.reporting.publishing import publish_to_warehouse
from tasks.planning.reporting.report import RunReport
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tests.faults.nights import local_client
from tests.fixtures.embedding_server import MODEL as EMBEDDER
from tests.fixtures.embedding_server import embedding_server
from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.flows.parley_command import SAMPLE, Done, ask, parley
from tests.tasks.benchmarks import alike, judged
from tests.tasks.benchmarks.judged import CLEAR, GOOD
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
N_TURNS = 38
"""Answers in the sample's eight dialogues."""
IN_FLIGHT = 2


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(max_seconds=300) as found:
        yield found


@pytest.fixture
def night_home(standing_home: Path, tmp_path: Path) -> Path:
    """An empty home whose commands use the standing server and its worker."""
    return tmp_path / "home"


def run(home: Path, server: ModelServer, *more: str) -> Done:
    model = f"openai:mock@{server.base_url}"
    return parley(
        home, *SAMPLE, "--model", model, "--revision", "1", "--concurrency", str(IN_FLIGHT), *more
    )


def tokens_of(body: Mapping[str, object], answer: str) -> int:
    """As the server counts a request and its answer."""
    return len(str(body["messages"])) // 4 + len(answer) // 4


def test_a_run_stops_at_its_caps_and_goes_on_without_paying_twice(
    night_home: Path, server: ModelServer
) -> None:
    priced = ("--price", "1", "2", "--json")
    stopped = run(night_home, server, *priced, "--budget", "usd=0.0005,tokens=100000")
    n_first = len(server.bodies)
    assert stopped.code == 4, stopped.err
    line = json.loads(stopped.out)
    assert (line["status"], line["published"], line["model_calls"]) == (
        "incomplete",
        False,
        n_first,
    )
    spent = line["budget"]["usd"]["spent"]
    assert line["usd"] == pytest.approx(spent)
    assert spent == pytest.approx((line["input_tokens"] + 2 * line["output_tokens"]) / 1e6)
    most = max(len(str(body["messages"])) // 4 + 2 * 50 for body in server.bodies) / 1e6
    assert 0.0005 <= spent < 0.0005 + IN_FLIGHT * most
    assert "the cap usd=0.0005 is reached" in line["reason"]
    assert "resume with: parley run codeif.static" in stopped.err
    assert "--budget usd=0.0005,tokens=100000" in stopped.err
    assert "usd=0.0005" in parley(night_home, "report").out
    (found,) = ask(night_home, "select status, withheld_reason as reason, n_owed from runs")
    assert found == {"status": "incomplete", "reason": line["reason"], "n_owed": line["owed"]}
    caps = {
        one["cap"]: one for one in json.loads(parley(night_home, "report", "--json").out)["budget"]
    }
    assert caps["usd"]["spent"] == pytest.approx(spent)
    assert (caps["usd"]["is_met"], caps["tokens"]["is_met"]) == (True, False)
    assert caps["tokens"]["spent"] == line["input_tokens"] + line["output_tokens"]
    assert ask(night_home, "select count(*) as n from leaderboard") == [{"n": 0}]

    assert (line["n_resumed"], line["n_turns_kept"]) == (0, 0)
    assert line["n_new"] >= 8 - line["owed"]
    n_kept = n_first - answers_of_finished(night_home)
    again = run(night_home, server, *priced, "--budget", "tokens=1500")
    assert again.code == 4, again.err
    assert n_first < len(server.bodies) < N_TURNS
    n_resumed = line["n_new"] - (8 - line["owed"])
    assert f"{n_resumed} resumed with {n_kept} stored answers" in parley(night_home, "report").out
    assert 0 < n_resumed <= n_kept
    late = run(night_home, server, *priced, "--budget", "hours=0.0000001")
    assert (late.code, json.loads(late.out)["model_calls"]) == (4, 0)
    assert "not started: the cap wall_hours=1e-07 is reached" in late.err

    whole = run(night_home, server, *priced).json()
    assert (whole["status"], whole["owed"], whole["published"]) == ("finished", 0, True)
    assert len(server.bodies) == N_TURNS
    assert server.stats()["repeated"] == 0


def answers_of_finished(home: Path) -> int:
    """Answers of the dialogues that the lake holds."""
    lake = Lake(Home(home).lake)
    episodes = [
        episode
        for part in lake.parts("episodes")
        for episode in lake.read_part("episodes", Episode, part)
    ]
    return sum(step.role is Role.ASSISTANT for episode in episodes for step in episode.messages)


def test_what_nobody_counts_counts_by_its_length(night_home: Path, server: ModelServer) -> None:
    server.choose = lambda _name, _n: Reply(usage=False)
    stopped = run(night_home, server, "--budget", "tokens=600", "--json")
    assert stopped.code == 4, stopped.err
    line = json.loads(stopped.out)
    assert line["n_unknown_tokens"] == line["model_calls"] == len(server.bodies)
    assert (line["input_tokens"], line["usd"]) == (0, None)
    assert 600 <= line["budget"]["tokens"]["spent"] < 600 + 1000 * IN_FLIGHT
    assert "answers without token counts are estimated by length" in stopped.err


def test_a_night_publishes_what_is_whole_and_leaves_the_rest_for_the_next(
    night_home: Path, server: ModelServer
) -> None:
    server.models = ("first", "second", "third")
    server.latency_s = 0.4  # time enough for the gold's lane to begin before the cap is met
    config = night_home.parent / "night.yaml"
    models = [
        {"spec": f"openai:{name}@{server.base_url}", "revision": "1"} for name in server.models
    ]
    settings = {
        "models": [*models, {"spec": "control:gold"}],
        "benchmarks": [{"name": "codeif.static", "dataset_version": "sample"}],
        "concurrency": IN_FLIGHT,
        "workers": 1,
        "budget": {"tokens": 9000},
    }
    config.write_text(yaml.safe_dump(settings))
    stopped = parley(night_home, "nightly", "--config", config, "--json")
    assert stopped.code == 4, stopped.err
    lines = [json.loads(line) for line in stopped.out.splitlines()]
    assert [line["status"] for line in lines] == [
        "finished",
        "incomplete",
        "incomplete",
        "finished",
    ]
    assert [line["reason"].partition(":")[0] for line in lines[1:3]] == [
        "stopped at the budget",
        "not started",
    ]
    assert "2 of 4 runs are incomplete" in stopped.err
    published = ask(night_home, "select distinct model from leaderboard order by model")
    assert published == [{"model": "control:gold"}, {"model": "openai:first"}]
    assert ask(
        night_home, "select status, count(*) as n from runs group by all order by status"
    ) == [
        {"status": "finished", "n": 2},
        {"status": "incomplete", "n": 2},
    ]
    (cap,) = ask(night_home, "select unnest(budget, recursive := true) from nights")
    assert (cap["cap"], cap["allowed"], cap["is_met"]) == ("tokens", 9000, True)
    assert cap["spent"] == sum(line["input_tokens"] + line["output_tokens"] for line in lines)

    whole = parley(
        night_home, "nightly", "--config", config, "--budget", "tokens=1000000", "--json"
    )
    assert whole.code == 0, whole.err
    assert len(server.bodies) == 3 * N_TURNS
    assert len(ask(night_home, "select distinct model from leaderboard")) == 4


def test_a_cap_stops_the_runs_of_every_endpoint_and_none_pays_twice(
    night_home: Path, server: ModelServer
) -> None:
    with model_server() as other:
        config = night_home.parent / "night.yaml"
        settings = {
            "models": [
                {"spec": f"openai:mock@{one.base_url}", "revision": str(n)}
                for n, one in enumerate((server, other))
            ],
            "benchmarks": [
                {"name": "codeif.static", "dataset_version": "sample", "seed": seed}
                for seed in (0, 7)
            ],
            "concurrency": IN_FLIGHT,
            "workers": 1,
            "budget": {"tokens": 1500},
        }
        config.write_text(yaml.safe_dump(settings))
        server.latency_s = other.latency_s = 1.5  # time enough for the second lane to begin
        stopped = parley(night_home, "nightly", "--config", config, "--json")
        assert stopped.code == 4, stopped.err
        lines = [json.loads(line) for line in stopped.out.splitlines()]
        assert [line["status"] for line in lines] == ["incomplete"] * 4
        assert (
            sorted(line["reason"].partition(":")[0] for line in lines)
            == ["not started"] * 2 + ["stopped at the budget"] * 2
        )
        n_first = [len(one.bodies) for one in (server, other)]
        assert all(n_first), "both endpoints were asked when the cap was met"
        assert sorted(line["model_calls"] for line in lines) == sorted([0, 0, *n_first])
        spent = lines[0]["budget"]["tokens"]["spent"]
        most = max(
            len(str(body["messages"])) // 4 + 50 for one in (server, other) for body in one.bodies
        )
        assert 1500 <= spent < 1500 + 2 * IN_FLIGHT * most

        server.latency_s = other.latency_s = 0.0
        whole = parley(
            night_home, "nightly", "--config", config, "--budget", "tokens=1000000", "--json"
        )
        assert whole.code == 0, whole.err
        assert [len(one.bodies) for one in (server, other)] == [2 * N_TURNS] * 2


def test_a_cap_that_nobody_can_keep_is_refused_before_anything_is_asked(
    night_home: Path, server: ModelServer
) -> None:
    refused = run(night_home, server, "--budget", "usd=5")
    assert refused.code == 2
    assert "model openai:mock has no price. Set usd_per_million_input" in refused.err
    assert run(night_home, server, "--budget", "usd=5", "--dry-run").code == 2
    assert server.bodies == []
    embedded = request(ModelRequest(spec="embedded:smollm2"))
    with pytest.raises(ConfigError, match=r"embedded:smollm2 has no price.*usd_per_hour"):
        require_prices([plan_run(embedded, Home(night_home))], Budget(usd=5))
    vllm = request(ModelRequest(spec="vllm:someone/something", revision="1"))
    with pytest.raises(ConfigError, match="number of GPUs of the server of model vllm:someone"):
        require_prices([plan_run(vllm, Home(night_home))], Budget(gpu_hours=1))
    require_prices([plan_run(embedded, Home(night_home))], Budget(gpu_hours=1))
    require_prices(
        [plan_run(request(ModelRequest(spec="control:gold")), Home(night_home))], Budget(usd=1)
    )


def request(model: ModelRequest, name: str = "codeif.static", **more: object) -> EvaluationRequest:
    benchmark = BenchmarkRequest(name=name, dataset_version="sample")
    return EvaluationRequest.model_validate(
        {"model": model, "benchmark": benchmark, "concurrency": IN_FLIGHT, **more}
    )


@pytest.fixture
def evaluated(
    tmp_path: Path, server_url: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> "Evaluated":
    monkeypatch.delenv("PARLEY_DASK_ADDRESS", raising=False)
    return Evaluated(tmp_path, server_url, server, monkeypatch)


class Evaluated:
    """Evaluations on a worker of this process, within a budget.

    Models of ours are served by the test's server.
    """

    def __init__(
        self, home: Path, server_url: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.home, self._server_url, self._server, self._monkeypatch = (
            home,
            server_url,
            server,
            monkeypatch,
        )
        self.n_started = 0

    def __call__(self, asked: EvaluationRequest, budget: Budget | None) -> RunReport:
        @contextmanager
        def serve(access: ModelAccess, _: ModelRequest) -> Iterator[ModelEndpoint]:
            self.n_started += 1
            yield access.endpoint.model_copy(update={"base_url": self._server.base_url})

        at_server = changed_environment(client_settings(self.home / "prefect", self._server_url))
        with at_server, local_client() as client, Session(Home(self.home)) as session:
            self._monkeypatch.setattr(session, "_client", client)
            self._monkeypatch.setattr(session.servers, "_server", serve)
            session.set_budget(budget)
            return evaluate_model(session, asked)


def test_gpu_hours_count_from_a_servers_start(evaluated: Evaluated, server: ModelServer) -> None:
    server.models, server.latency_s = ("tests/subject",), 0.1
    asked = request(ModelRequest(spec="vllm:tests/subject", revision="1", gpus=8))
    report = evaluated(asked, Budget(gpu_hours=8 * 1.0 / 3600))
    assert (report.status, evaluated.n_started) == ("incomplete", 1)
    assert "the cap gpu_hours=" in str(report.reason)
    n_first = len(server.bodies)
    assert n_first < N_TURNS
    priced = asked.model_copy(
        update={"model": asked.model.model_copy(update={"usd_per_hour": 36.0})}
    )
    assert evaluated(priced, None).status == "finished"
    assert (len(server.bodies), server.stats()["repeated"]) == (N_TURNS, 0)

    assert evaluated(request(ModelRequest(spec="control:gold")), None).status == "finished"
    publish_to_warehouse(Home(evaluated.home))
    hours = [hours for (hours,) in query(evaluated.home, "select hours from served_hours")[1]]
    assert len(hours) == 2
    assert min(hours) > 0.5 / 3600
    columns = "model, role, usd, server_hours, gpu_hours, usd_hourly"
    gold, ours = query(evaluated.home, f"select {columns} from costs order by model")[1]
    assert gold == ("control:gold", "subject", None, None, None, None)
    whole = pytest.approx(sum(hours))
    assert ours == (
        "vllm:tests/subject",
        "subject",
        None,
        whole,
        pytest.approx(8 * sum(hours)),
        pytest.approx(36 * sum(hours)),
    )


def test_the_hours_of_a_killed_night_are_unknown_and_not_0(
    evaluated: Evaluated, server: ModelServer
) -> None:
    asked = request(ModelRequest(spec="vllm:tests/subject", revision="1", gpus=1, usd_per_hour=1))
    server.models = ("tests/subject",)
    plan = plan_run(asked, Home(evaluated.home))
    ServerHours("20260101T000000-dead").take(plan, [plan.spec.subject])
    assert evaluated(asked, None).status == "finished"
    publish_to_warehouse(Home(evaluated.home))
    assert query(evaluated.home, "select server_hours, gpu_hours, usd_hourly from costs")[1] == [
        (None, None, None)
    ]


def test_judgements_that_begin_within_dialogues_heed_the_cap(
    evaluated: Evaluated, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BENCHMARKS.built_in, judged.NAME, f"{judged.__name__}:BENCHMARK")
    server.answer = lambda _messages: GOOD
    judge = ModelRequest(spec=f"openai:mock@{server.base_url}", revision="1")
    asked = request(ModelRequest(spec="control:gold"), "judged.talk", judges={"": judge})
    report = evaluated(asked, Budget(tokens=1))
    n_first = len(server.bodies)
    assert report.status == "incomplete"
    assert 1 <= n_first <= IN_FLIGHT, "the cap is met by the first answer"
    assert report.work is not None
    assert (report.work.model_calls, report.work.status) == (n_first, "incomplete")
    plan = plan_run(asked, Home(evaluated.home))
    assert plan.lake.parts("judge_verdicts", **plan.keys) == []

    assert evaluated(asked, None).status == "finished"
    dialogues = [body for body in server.bodies if not is_drift(body)]
    assert len(dialogues) == len({json.dumps(body["messages"]) for body in dialogues}), (
        "a judgement was paid for twice"
    )


def is_drift(body: Mapping[str, list[Mapping[str, str]]]) -> bool:
    return body["messages"][0]["content"].startswith((f"{CLEAR.prompt} Yes", f"{CLEAR.prompt} No"))


def test_embeddings_count_and_stop_at_the_cap(
    evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BENCHMARKS.built_in, "alike", f"{alike.__name__}:BENCHMARK")
    with embedding_server() as texts:
        embedder = ModelRequest(
            spec=f"openai:{EMBEDDER}@{texts.base_url}", revision="1", usd_per_million_input=1
        )
        asked = request(ModelRequest(spec="control:gold"), "alike.ask", embedder=embedder)
        report = evaluated(asked, Budget(usd=1e-9))
        assert report.status == "incomplete", report.reason
        kept = dict(texts.texts)
        assert kept
        assert evaluated(asked, None).status == "finished"
        assert len(texts.texts) > len(kept)
        assert set(texts.texts.values()) == {1}
