"""Estimates beside what runs really send: within a factor of two, by assumption on the samples, and
by what a home holds.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from flows.night.preflight.assumed_requests import CHARACTERS_PER_TOKEN, TOKENS_PER_ANSWER
from flows.night.preflight.dry_run import Estimate, estimate
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.codeif.cast import user_texts
from tasks.benchmarks.codeif.recording import import_recording
from tasks.benchmarks.unidial.datasets import DATASETS
from tasks.converse import ConverseStage, context_for
from tasks.driver.judging import pending_judgements
from tasks.planning.participants.choice import find_setting
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.stage import run_stage
from tasks.storage.home import Home
from tests.faults.nights import local_client
from tests.fixtures.model_server import ModelServer, digest, model_server
from tests.tasks.staged_plan import stage

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]
ANSWER = (
    "```python\n"
    + "value = 1  # nothing that was asked for\n" * (TOKENS_PER_ANSWER * CHARACTERS_PER_TOKEN // 40)
    + "```"
)
QUESTION = (
    "Before I write the program: which values may it get, and what is to happen to none? " * 4
)
REMARK = "Reasoning: it compares pairs.\nFeedback: " + "Look at the ends of the list again. " * 15
"""What a simulated user says: a label and some sentences, as ConvCodeWorld's prompt asks for."""
SAMPLES = (
    *("codeif.static", "codeif.dynamic", "codeif.two_round"),
    *("convcode.live[none]", "convcode.live[f_c]", "convcode.live[f_c,f_e]"),
    *("convcode.live[f_c,f_e,f_v]", "convcode.live[f_c,f_v*]", "convcode.live[f_c,ground_truth]"),
    *("talk2code.direct", "talk2code.golden", "talk2code.interactive_judged"),
    *(f"unidial.{name}" for name in sorted(DATASETS)),
)
"""Every benchmark's bundled sample, and each of UniDial's; an agent's runs are measured below."""


def answer_every_role(messages: list[dict[str, Any]]) -> str:
    """Questions for six rounds, and then a program; alone, a program at once."""
    told = "\n".join(str(message["content"]) for message in messages)
    if "Play the user" in told or "You play a" in told:
        return REMARK
    n_asked = sum(message["role"] == "user" for message in messages)
    if "a programmer who talks with a user" in told and n_asked < 7:
        return f"{QUESTION} ({digest(messages)})"
    named = re.search(r"defines `(\w+)`", told)
    return ANSWER.replace("value", named[1], 1) if named else ANSWER


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(max_seconds=300, models=("mock", "user", "judge")) as found:
        found.answer = answer_every_role
        yield found


def plan(
    home: Path,
    server: ModelServer,
    setting: str,
    options: Mapping[str, str] = MappingProxyType({}),
    **model: Any,
) -> RunPlan:
    """A run of three tasks of the sample, with each role that the setting has."""

    def request(name: str, **more: Any) -> ModelRequest:
        return ModelRequest(spec=f"openai:{name}@{server.base_url}", revision="1", **more)

    benchmark, name = find_setting(setting)
    definition = benchmark.setting(name)
    return plan_run(
        EvaluationRequest(
            model=request("mock", **model),
            benchmark=BenchmarkRequest(
                name=setting, dataset_version="sample", limit=3, options=dict(options)
            ),
            simulator=request("user") if definition.needs_simulator else None,
            judges={"": request("judge")} if definition.rubrics else {},
            sandbox="zygote",
        ),
        Home(home),
    )


Sent = tuple[int, int, int]
"""Requests, with the tokens of prompts and answers by the estimate's own measure."""


def played(owing: RunPlan, server: ModelServer) -> dict[str, Sent]:
    """What each role is sent. Of judges, who answer nothing here, it is what the night then sends."""
    before = len(server.bodies)
    stage(owing)
    with local_client() as client:
        stage(owing)
        run_stage(ConverseStage(owing, context_for(owing, workers=1, cores=2), client))
    bodies = [body for body in server.bodies[before:] if "messages" in body]
    judged = [job.messages for job in pending_judgements(owing)]
    rubrics = owing.benchmark.rubrics(owing.spec.setting) if judged else ()
    judged += [rubric.with_form(case) for rubric in rubrics for case in rubric.drift]
    told = sum(len(message.content) for messages in judged for message in messages)
    return {
        "subject": sent_to("mock", bodies, server),
        "simulator": sent_to("user", bodies, server),
        "judge": (len(judged), told // CHARACTERS_PER_TOKEN, 0),
    }


def sent_to(model: str, bodies: list[dict[str, Any]], server: ModelServer) -> Sent:
    own = [body["messages"] for body in bodies if body["model"] == model]
    shown = sum(len(str(message["content"])) for messages in own for message in messages)
    answered = sum(len(str(server.answer(messages))) for messages in own)
    return len(own), shown // CHARACTERS_PER_TOKEN, answered // CHARACTERS_PER_TOKEN


def told(found: Estimate) -> dict[str, Sent]:
    """The same of an estimate."""
    return {
        "subject": (found.calls, found.input_tokens, found.output_tokens),
        "simulator": (
            found.simulator_calls,
            found.simulator_input_tokens,
            found.simulator_output_tokens,
        ),
        "judge": (found.judge_calls, found.judge_input_tokens, 0),
    }


def is_within_a_factor_of_two(found: Estimate, sent: dict[str, Sent]) -> bool:
    return all(
        real / 2 <= guess <= 2 * real
        for role, guesses in told(found).items()
        for guess, real in zip(guesses, sent[role], strict=True)
    )


@pytest.mark.parametrize("setting", SAMPLES)
def test_on_the_bundled_samples(setting: str, tmp_path: Path, server: ModelServer) -> None:
    owing = plan(tmp_path, server, setting)
    found = estimate(owing)
    sent = played(owing, server)
    assert any(calls for calls, _, _ in sent.values())
    assert is_within_a_factor_of_two(found, sent), (told(found), sent)


def test_an_option_s_history_is_counted(tmp_path: Path, server: ModelServer) -> None:
    """Later requests hold the base answer alone, whose length is known here."""
    owing = plan(tmp_path, server, "codeif.static", {"history": "upstream_v0"})
    found = estimate(owing)
    (_, shown, _) = played(owing, server)["subject"]
    assert found.input_tokens == pytest.approx(shown, rel=0.1)


@pytest.mark.shared
@pytest.mark.parametrize("model", ["qwen2.5-7b-instruct", "deepseek-chat"])
def test_on_published_answers(
    model: str, tmp_path: Path, server: ModelServer, shared_data: Path
) -> None:
    """CodeIF-Bench's published runs: 343 answers of a real model, whose lengths nobody assumed."""
    data = shared_data / "codeif_bench"
    recorded = import_recording(data / "function" / "Experiments", model)
    answers = {(answer.problem_id, answer.turn): answer.content for answer in recorded}
    dialogs = BENCHMARK.data.stage(data, "v0").dialogs
    names = {user_texts(dialog)[0]: dialog.problem_id for dialog in dialogs}

    def answer(messages: list[dict[str, Any]]) -> str:
        asked = [str(message["content"]) for message in messages if message["role"] == "user"]
        return answers[names[asked[0]], len(asked)]

    server.answer = answer
    subject = ModelRequest(
        spec=f"openai:mock@{server.base_url}",
        revision="1",
        usd_per_million_input=1.0,
        usd_per_million_output=4.0,
    )
    asked = BenchmarkRequest(name="codeif.static", dataset_version="v0", data=str(data))
    owing = plan_run(
        EvaluationRequest(model=subject, benchmark=asked, sandbox="zygote"), Home(tmp_path)
    )
    found = estimate(owing)
    sent = played(owing, server)
    assert sent["subject"][0] == len(answers) == 343
    assert is_within_a_factor_of_two(found, sent), (told(found), sent)


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
    """Table 1: 50 steps, and 0.97 USD with GPT-5, 0.23 with GPT-5-mini and the interactive agent;
    not 101 rounds of 100 requests.
    """
    subject = ModelRequest(
        spec=f"openai:m@{server.base_url}",
        revision="1",
        agent="interactive",
        usd_per_million_input=1.25,
        usd_per_million_output=10.0,
    )
    mini = subject.model_copy(update={"usd_per_million_input": 0.25, "usd_per_million_output": 2.0})
    asked = BenchmarkRequest(name="dialogue_swebench.full", dataset_version="sample", limit=1)
    request = EvaluationRequest(
        model=subject,
        benchmark=asked,
        simulator=ModelRequest(spec="control:empty"),
        sandbox="zygote",
    )
    for model, usd in ((subject, 0.97), (mini, 0.23)):
        found = estimate(plan_run(request.model_copy(update={"model": model}), Home(tmp_path)))
        assert 25 <= found.calls <= 100
        assert found.usd is not None
        assert usd / 2 <= found.usd <= usd * 2
    short = request.model_copy(
        update={"model": subject.model_copy(update={"agent_options": {"steps": "10"}})}
    )
    assert estimate(plan_run(short, Home(tmp_path))).calls <= 10


USD_PER_FEEDBACK = 215 / 15_905
"""ConvCodeWorld, appendix A.2: 26.4 million input and 5.5 million output tokens of GPT-4o."""


def test_feedback_costs_what_the_paper_s_did(tmp_path: Path, server: ModelServer) -> None:
    simulator = ModelRequest(
        spec=f"openai:user@{server.base_url}",
        revision="1",
        usd_per_million_input=5.0,
        usd_per_million_output=15.0,
    )
    for feedback in ("f_c,f_v*", "f_c,f_e,f_v", "f_c,f_e*,f_v*"):
        asked = BenchmarkRequest(name=f"convcode.live[{feedback}]", dataset_version="sample")
        request = EvaluationRequest(
            model=ModelRequest(spec="control:empty"), benchmark=asked, simulator=simulator
        )
        found = estimate(plan_run(request, Home(tmp_path)))
        assert (found.calls, found.input_tokens) == (0, 0), "controls cost nothing"
        assert found.usd is not None
        assert found.simulator_calls > 0
        each = found.usd / found.simulator_calls
        assert USD_PER_FEEDBACK / 2 <= each <= 2 * USD_PER_FEEDBACK, feedback


def test_episodes_of_two_runs_are_counted_once(tmp_path: Path, server: ModelServer) -> None:
    model = ModelRequest(spec=f"openai:m@{server.base_url}", revision="1")
    one, two = (
        plan_run(
            EvaluationRequest(
                model=model,
                benchmark=BenchmarkRequest(
                    name="codeif.static", dataset_version="sample", samples=samples
                ),
            ),
            Home(tmp_path),
        )
        for samples in (1, 2)
    )
    first, second = estimate(one), estimate(two)
    rest = estimate(two, one.wanted.ids)
    assert second.pending == first.pending + rest.pending == 2 * first.pending
    assert second.calls == first.calls + rest.calls > first.calls


def test_a_run_of_controls_costs_nothing(tmp_path: Path) -> None:
    """Each setting of the samples with controls in all roles."""
    control = ModelRequest(spec="control:empty")
    for setting in SAMPLES:
        benchmark, name = find_setting(setting)
        definition = benchmark.setting(name)
        request = EvaluationRequest(
            model=control,
            benchmark=BenchmarkRequest(name=setting, dataset_version="sample"),
            simulator=control if definition.needs_simulator else None,
            judges={"": control} if definition.rubrics else {},
        )
        found = estimate(plan_run(request, Home(tmp_path)))
        assert found.episodes > 0
        assert (found.calls, found.simulator_calls, found.judge_calls) == (0, 0, 0), setting
        assert found.usd in (None, 0.0), setting
