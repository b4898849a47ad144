"""Options of new runs: models that are asked get the Markdown parser; replays, controls and runs of
before do not.
"""

from pathlib import Path

import pytest

from schemas.content_id import canonical_json
from schemas.lake.records import RunRecord
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home

ASKED = "openai:mock@http://127.0.0.1:9/v1"
SETTINGS = (
    "codeif.static",
    "codeif.two_round",
    "convcode.live[none]",
    "convcode.live[f_c]",
    "talk2code.direct",
)


@pytest.fixture
def place(tmp_path: Path) -> Home:
    return Home.at(str(tmp_path / "home"))


def plan(
    place: Home,
    model: str = ASKED,
    setting: str = "codeif.static",
    resume: str | None = None,
    **options: str,
) -> RunPlan:
    benchmark = BenchmarkRequest(name=setting, dataset_version="sample", options=options)
    request = ModelRequest(spec=model, revision="r1" if model == ASKED else None)
    return plan_run(
        EvaluationRequest(model=request, benchmark=benchmark, sandbox="none", resume=resume), place
    )


def keep_record(place: Home, run: RunPlan) -> None:
    """Put a finished run into the lake."""
    record = RunRecord(
        run_id=run.run_id,
        night_id="n",
        benchmark=run.spec.benchmark,
        model=run.spec.label,
        setting=run.spec.full_setting,
        dataset_version=run.spec.dataset_version,
        revision=run.spec.subject.revision,
        spec_json=canonical_json(run.spec),
        sandbox=run.spec.sandbox,
        isolated=False,
        samples=1,
        seed=0,
        status="finished",
        started_at="2026-10-01T00:00:00Z",
        finished_at="2026-10-01T00:01:00Z",
        n_episodes=1,
        n_owed=0,
        n_infra=0,
        n_unscored=0,
        n_truncated=0,
        model_calls=0,
        parley_version="0.1.0",
    )
    run.lake.write_part("runs", [record], "0", **run.keys)


def extraction(run: RunPlan) -> str:
    return run.options["extraction"]


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_new_run_of_a_model_that_is_asked_reads_markdown_and_a_control_does_not(
    place: Home, setting: str
) -> None:
    assert extraction(plan(place, setting=setting)) == "markdown"
    assert extraction(plan(place, setting=setting, extraction="first_block")) == "first_block"
    control = plan(place, "control:gold", setting)
    assert extraction(control) == "first_block"
    assert "extraction" not in dict(control.spec.episode_options + control.spec.scoring_options)


@pytest.mark.parametrize("option", ["history", "answer_cleanup"])
def test_options_that_reproduce_published_runs_keep_the_papers_rule(
    place: Home, option: str
) -> None:
    assert extraction(plan(place, **{option: "upstream_v0"})) == "first_block"
    assert extraction(plan(place, **{option: "upstream_v0"}, extraction="markdown")) == "markdown"


def test_only_dialogues_in_which_programs_are_read_are_other_dialogues(place: Home) -> None:
    def ids(setting: str, rule: str) -> list[str]:
        return [one.episode_id for one in plan(place, setting=setting, extraction=rule).wanted]

    assert ids("codeif.static", "markdown") == ids("codeif.static", "first_block")
    assert not set(ids("codeif.dynamic", "markdown")) & set(ids("codeif.dynamic", "first_block"))


def test_a_model_goes_on_by_the_rule_of_its_runs_from_before(place: Home) -> None:
    keep_record(place, plan(place, extraction="first_block"))
    again = plan(place)
    assert extraction(again) == "first_block"
    assert extraction(plan(place, setting="codeif.two_round")) == "markdown"
    assert extraction(plan(place, extraction="markdown")) == "markdown"
    keep_record(place, plan(place, extraction="markdown"))
    assert extraction(plan(place)) == "markdown"


@pytest.mark.parametrize("rule", ["first_block", "markdown"])
def test_a_resumed_run_keeps_its_rule(place: Home, rule: str) -> None:
    begun = plan(place, extraction=rule)
    keep_record(place, begun)
    keep_record(
        place, plan(place, extraction={"first_block": "markdown", "markdown": "first_block"}[rule])
    )
    assert plan(place, resume=begun.run_id).run_id == begun.run_id
