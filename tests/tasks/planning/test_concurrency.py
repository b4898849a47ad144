"""Each endpoint has a concurrency of its own; roles on one endpoint share it."""

from pathlib import Path

import pytest

from tasks.benchmarks.registry import BENCHMARKS
from tasks.converse import context_for
from tasks.driver.judging import judge_context
from tasks.planning.participants.models import concurrency_by_endpoint, endpoint_of
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.worker.jobs import RunContext
from tests.tasks.benchmarks import judged

HERE, THERE = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"


def model(url: str, concurrency: int | None = None, name: str = "m") -> ModelRequest:
    return ModelRequest(spec=f"openai:{name}@{url}", revision="1", concurrency=concurrency)


def plan_of(home: Path, subject: ModelRequest, simulator: ModelRequest) -> RunPlan:
    benchmark = BenchmarkRequest(name="convcode.live[f_c,f_v]", dataset_version="sample")
    return plan_run(
        EvaluationRequest(
            model=subject, simulator=simulator, benchmark=benchmark, sandbox="none", concurrency=64
        ),
        Home(home),
    )


def _concurrencies(context: RunContext) -> tuple[int, int]:
    assert context.simulator is not None
    return context.subject.policy.concurrency, context.simulator.policy.concurrency


def test_endpoints_of_their_own_have_a_concurrency_of_their_own(tmp_path: Path) -> None:
    context = context_for(plan_of(tmp_path, model(HERE), model(THERE, 8)), workers=2, cores=2)
    assert (*_concurrencies(context), context.concurrency) == (
        32,
        4,
        36,
    )
    assert context.shards_at_once is None


def test_roles_on_one_endpoint_share_the_smaller_concurrency(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, model(HERE), model(HERE, 8, name="other"))
    context = context_for(plan, workers=2, cores=2)
    assert (*_concurrencies(context), context.concurrency) == (
        4,
        4,
        4,
    )
    assert set(concurrency_by_endpoint(plan.models).values()) == {8}


def test_a_concurrency_smaller_than_the_workers_bounds_the_shards(tmp_path: Path) -> None:
    context = context_for(plan_of(tmp_path, model(HERE), model(THERE, 1)), workers=2, cores=2)
    assert (context.shards_at_once, _concurrencies(context)) == (1, (32, 1))


def test_a_key_of_its_own_is_an_endpoint_of_its_own(tmp_path: Path) -> None:
    with_key = model(HERE, 8).model_copy(update={"key_env": "OTHER_KEY"})
    assert set(
        concurrency_by_endpoint(plan_of(tmp_path, model(HERE), with_key).models).values()
    ) == {
        64,
        8,
    }


def test_a_judge_has_its_concurrency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BENCHMARKS, "built_in", {judged.NAME: f"{judged.__name__}:BENCHMARK"})
    benchmark = BenchmarkRequest(name="judged.code", dataset_version="sample")
    judges = {"": model(THERE, 8), "whole": model(HERE)}
    request = EvaluationRequest(
        model=model(HERE, 16), judges=judges, benchmark=benchmark, sandbox="none"
    )
    plan = plan_run(request, Home(tmp_path))
    assert {
        name: judge.policy.concurrency
        for name, judge in judge_context(plan, workers=2).judges.items()
    } == {"clear": 4, "whole": 8}
    assert concurrency_by_endpoint(plan.models)[endpoint_of(plan.subject)] == 16


def test_a_judge_on_the_subjects_server_keeps_its_own_system_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BENCHMARKS, "built_in", {judged.NAME: f"{judged.__name__}:BENCHMARK"})
    (tmp_path / "system.txt").write_text("Answer in French.")
    served = ModelRequest(spec="vllm:tests/one", revision="1")
    request = EvaluationRequest(
        model=served.model_copy(update={"system_prompt": str(tmp_path / "system.txt")}),
        judges={"": served},
        benchmark=BenchmarkRequest(name="judged.code", dataset_version="sample"),
        sandbox="none",
    )
    plan = plan_run(request, Home(tmp_path))
    server = plan.subject.endpoint.model_copy(update={"base_url": HERE, "served_name": "s"})
    places = {plan.subject.identity: server}
    subject = context_for(plan, workers=1, cores=1, served=places).subject.endpoint
    judge = judge_context(plan, workers=1, served=places).judges["clear"].endpoint
    assert (subject.system_text, judge.system_text) == ("Answer in French.", "")
    assert (judge.base_url, judge.served_name) == (HERE, "s")
