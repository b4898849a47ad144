"""Estimates beside what runs really send: within a factor of two, by assumption on the samples, and
by what a home holds.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.night.preflight.assumed_requests import CHARACTERS_PER_TOKEN, TOKENS_PER_ANSWER
from flows.night.preflight.dry_run import Estimate, estimate
from tasks.converse import ConverseStage, context_for
from tasks.driver.stage import run_stage
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.stage import stage
from tasks.storage.home import Home
from tests.faults.nights import local_client
from tests.fixtures.model_server import ModelServer, model_server

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]
ANSWER = (
    "```python\n"
    + "value = 1  # nothing that was asked for\n" * (TOKENS_PER_ANSWER * CHARACTERS_PER_TOKEN // 40)
    + "```"
)
SAMPLES = (
    *(
        "codeif.static",
        "codeif.dynamic",
        "codeif.two_round",
        "talk2code.direct",
        "unidial.multi_if",
    ),
    *(
        "convcode.live[none]",
        "convcode.live[f_c]",
        "convcode.live[f_c,f_e]",
        "convcode.live[f_c,ground_truth]",
    ),
)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(max_seconds=300) as found:
        found.answer = lambda messages: ANSWER
        yield found


def plan(home: Path, server: ModelServer, setting: str, **model: Any) -> RunPlan:
    subject = ModelRequest(spec=f"openai:mock@{server.base_url}", revision="1", **model)
    asked = BenchmarkRequest(name=setting, dataset_version="sample", limit=3)
    return plan_run(EvaluationRequest(model=subject, benchmark=asked, sandbox="zygote"), Home(home))


def played(owing: RunPlan, server: ModelServer) -> tuple[int, int, int]:
    """Requests that the run sends, with the tokens of prompts and answers by the estimate's own
    measure.
    """
    before = len(server.bodies)
    stage.fn(owing, "estimate")
    with local_client() as client:
        stage.fn(owing, "stage")
        run_stage(ConverseStage(owing, context_for(owing, workers=1, cores=2), client))
    bodies = [body for body in server.bodies[before:] if "messages" in body]
    shown = sum(len(str(message["content"])) for body in bodies for message in body["messages"])
    answered = len(server.answer([])) * len(bodies)
    return len(bodies), shown // CHARACTERS_PER_TOKEN, answered // CHARACTERS_PER_TOKEN


def is_within_a_factor_of_two(found: Estimate, sent: tuple[int, int, int]) -> bool:
    told = (found.calls, found.input_tokens, found.output_tokens)
    return all(real / 2 <= guess <= 2 * real for guess, real in zip(told, sent, strict=True))


@pytest.mark.parametrize("setting", SAMPLES)
def test_on_the_bundled_samples(setting: str, tmp_path: Path, server: ModelServer) -> None:
    owing = plan(tmp_path, server, setting)
    found = estimate(owing)
    sent = played(owing, server)
    assert sent[0] > 0
    assert is_within_a_factor_of_two(found, sent), (found, sent)


def test_a_home_s_own_dialogues_are_measured(tmp_path: Path, server: ModelServer) -> None:
    """The model answers in few words, and is done after one round: assumptions are far off, its own
    dialogues are not.
    """
    server.answer = lambda messages: "```python\nx = 1\n```"
    first = plan(tmp_path, server, "codeif.static")
    assert not is_within_a_factor_of_two(estimate(first), played(first, server))
    again = plan(tmp_path, server, "codeif.static", temperature=0.5)
    found = estimate(again)
    assert is_within_a_factor_of_two(found, played(again, server))


def test_a_repository_dialogue_has_as_many_steps_as_the_paper_s_and_no_more_than_its_limit(
    tmp_path: Path, server: ModelServer
) -> None:
    """Table 1: 50 steps, and 0.97 USD with GPT-5 and the interactive agent; not 101 rounds of 100
    requests.
    """
    price = {"usd_per_million_input": 1.25, "usd_per_million_output": 10.0}
    subject = ModelRequest(
        spec=f"openai:m@{server.base_url}", revision="1", agent="interactive", **price
    )  # type: ignore[arg-type]
    asked = BenchmarkRequest(name="dialogue_swebench.full", dataset_version="sample", limit=1)
    request = EvaluationRequest(
        model=subject,
        benchmark=asked,
        simulator=ModelRequest(spec="control:empty"),
        sandbox="zygote",
    )
    found = estimate(plan_run(request, Home(tmp_path)))
    assert 25 <= found.calls <= 100
    assert found.usd is not None
    assert 0.97 / 2 <= found.usd <= 0.97 * 2
    short = request.model_copy(
        update={"model": subject.model_copy(update={"agent_options": {"steps": "10"}})}
    )
    assert estimate(plan_run(short, Home(tmp_path))).calls <= 10
