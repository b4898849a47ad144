"""Where requests may go to batches, what they cost there, and that no id knows of it."""

from pathlib import Path

import pytest

from schemas.errors import ConfigError
from tasks.planning.participants.models import batched_roles, concurrency_by_endpoint, role_cost
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home

ASKED = "openai:mock@http://127.0.0.1:9/v1"
ONE_ROUND = "convcode.live[none]"


@pytest.fixture
def place(tmp_path: Path) -> Home:
    return Home.at(str(tmp_path / "home"))


def model(spec: str = ASKED, *, batch: bool = True, agent: str | None = None) -> ModelRequest:
    return ModelRequest(
        spec=spec,
        revision="r",
        batch=batch,
        agent=agent,
        usd_per_million_input=2.0,
        usd_per_million_output=8.0,
    )


def plan(
    place: Home,
    asked: ModelRequest,
    setting: str = ONE_ROUND,
    simulator: ModelRequest | None = None,
) -> RunPlan:
    benchmark = BenchmarkRequest(name=setting, dataset_version="sample")
    return plan_run(
        EvaluationRequest(model=asked, benchmark=benchmark, simulator=simulator, sandbox="none"),
        place,
    )


def test_a_run_in_batches_is_the_same_run_at_half_the_price(place: Home) -> None:
    slow, fast = plan(place, model()), plan(place, model(batch=False))
    assert slow.run_id == fast.run_id
    assert (slow.subject.endpoint.batches, fast.subject.endpoint.batches) == (
        str(place.batches),
        None,
    )
    prices = [role_cost(one.lake, one.models[0]).price for one in (slow, fast)]
    assert prices == [(1.0, 4.0), (2.0, 8.0)]
    assert (batched_roles(slow.models), batched_roles(fast.models)) == ({"subject"}, set())
    assert [*concurrency_by_endpoint(slow.models).values()] == [50_000]
    assert [*concurrency_by_endpoint(fast.models).values()] == [64]


def test_batches_are_refused_where_answers_wait_for_answers(place: Home) -> None:
    with pytest.raises(ConfigError, match="rounds, each of which would wait"):
        plan(place, model(), "codeif.static")
    with pytest.raises(ConfigError, match="sends one request after another"):
        plan(place, model(agent="chain_of_thought"))
    with pytest.raises(ConfigError, match="Remove `batch` from the simulator"):
        plan(place, model(batch=False), "convcode.live[f_c,f_v]", simulator=model())


def test_batches_are_refused_where_no_endpoint_is(place: Home) -> None:
    with pytest.raises(ConfigError, match="only endpoints take batches"):
        plan(place, ModelRequest(spec="control:gold", batch=True))
