"""The configurations that come with Parley: demos on bundled tasks, and the example of a night with
all of its comments.
"""

import re
from pathlib import Path

import pytest

from flows.night.config import demo_requests, read_config
from flows.text.dry_run import show_dry_run
from schemas.episode import FEEDBACK_SETTINGS
from schemas.errors import UnknownName
from tasks.benchmarks.registry import BENCHMARKS
from tasks.planning.participants.choice import find_setting
from tasks.planning.plan import plan_run
from tasks.storage.home import Home
from tests.own_files import ROOT

COMMENTED_FIELD = re.compile(r"^( *)# ( *(?:- )?[a-z_]+:(?: +\S|$))", re.MULTILINE)


@pytest.mark.parametrize("name", [None, *BENCHMARKS.built_in])
def test_a_demo_is_a_small_model_between_the_controls_on_bundled_tasks(name: str | None) -> None:
    requests = demo_requests(name)
    assert {request.benchmark.name.partition(".")[0] for request in requests} >= {name or "codeif"}
    assert {request.model.spec for request in requests} == {
        "embedded:smollm2",
        "control:gold",
        "control:empty",
    }
    assert {request.benchmark.dataset_version for request in requests} == {"sample"}
    others = [
        other
        for request in requests
        for other in (request.simulator, *request.judges.values())
        if other
    ]
    assert {other.spec for other in others} <= {"embedded:smollm2"}


def test_the_first_demo_has_a_judge_at_work_on_a_benchmark_that_one_model_is_enough_for() -> None:
    judged = [
        request for request in demo_requests(None) if request.benchmark.name == "talk2code.golden"
    ]
    assert [(request.model.spec, request.judges[""].spec) for request in judged] == [
        ("control:gold", "embedded:smollm2")
    ]


def test_the_demo_of_feedback_has_all_nine_settings(tmp_path: Path) -> None:
    requests = demo_requests("convcode")
    plans = [plan_run(request, Home(tmp_path)) for request in requests]
    named = {f"live[{feedback.name}]" for feedback in FEEDBACK_SETTINGS}
    assert {plan.spec.setting for plan in plans} == named
    assert len(plans) == 27
    assert (
        sum(len(plan.wanted) for plan in plans) == 27
    )  # it takes minutes on two cores: see the folder's README


def test_a_dry_run_of_several_runs_adds_them_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    priced, *_, free = demo_requests("convcode")
    model = priced.model.model_copy(
        update={"usd_per_million_input": 1000.0, "usd_per_million_output": 10_000.0}
    )
    show_dry_run(
        Home(tmp_path), [priced.model_copy(update={"model": model}), free], json_output=False
    )
    said = capsys.readouterr().out
    assert "Total: 1 call, 1 simulator call, " in said
    assert "1 of 2 runs without a price" in said


def test_an_unknown_name_is_one_message() -> None:
    with pytest.raises(UnknownName, match="codeif, convcode"):
        demo_requests("codeifs")


def test_the_example_of_a_night_holds_with_all_its_comments_taken_in(tmp_path: Path) -> None:
    example = (ROOT / "nightly.yaml").read_text(encoding="utf-8")
    whole = tmp_path / "nightly.yaml"
    whole.write_text(COMMENTED_FIELD.sub(r"\1\2", example), encoding="utf-8")
    asked = read_config(whole)
    assert {benchmark.name.partition(".")[0] for benchmark in asked.benchmarks} == set(
        BENCHMARKS.built_in
    )
    assert len(asked.models) == len(read_config(ROOT / "nightly.yaml").models) + 2, (
        "an endpoint, and weights that Parley serves"
    )
    for wanted in asked.benchmarks:
        benchmark, setting = find_setting(wanted.name)
        benchmark.split_options(setting, wanted.options)
        assert asked.simulator or not benchmark.setting(setting).needs_simulator
