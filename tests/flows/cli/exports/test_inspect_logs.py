"""`parley export inspect`, read again with Inspect's own reader: samples, messages, scores, usage,
test output.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from schemas.dialog import Role
from schemas.episode import Episode, Step, StepKind, ToolCall
from schemas.run import ModelIdentity
from schemas.verdict import JudgeVerdict
from tests.flows.parley_command import parley
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.small_run import FRACTION, IA, Run
from warehouse.connect import query
from warehouse.publication.publish import publish

pytestmark = pytest.mark.slow

INSTALLED = pytest.mark.skipif(
    find_spec("inspect_ai") is None, reason="inspect_ai is not installed: make inspect"
)
HOSTILE = (
    "</script>\x1b[31m\u202e {{ 7 * 7 }} \ud83d".encode("utf-8", "ignore").decode() + "\x00end"
)


class ToolRun(Run):
    """Its answers come after a tool call; one call is no JSON.

    Nobody counted its tokens but the first dialogue's.
    """

    def episode(self, *arguments: Any, **more: Any) -> Episode:
        made = super().episode(*arguments, **more)
        call = ToolCall(call_id="c1", name="edit", arguments='{"x": 1}')
        broken = ToolCall(call_id="c2", name="edit", arguments="{")
        steps = (
            made.steps[0],
            Step(
                turn=1,
                role=Role.ASSISTANT,
                content="I look",
                kind=StepKind.TOOL_CALL,
                calls=(call, broken),
            ),
            Step(turn=1, role=Role.TOOL, content=HOSTILE, kind=StepKind.OBSERVATION, call_id="c1"),
            Step(turn=1, role=Role.ASSISTANT, content="a note", kind=StepKind.ARTIFACT),
            *made.steps[1:],
        )
        return made.model_copy(update={"steps": steps})


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> SmallLake:
    lake = SmallLake(tmp_path_factory.mktemp("inspect") / "home").write_all()
    tools = tool_run(lake)
    lake.write_model(tools.subject, None, None)
    lake.write_simple(tools)
    common = {
        "run_id": tools.run_id,
        "benchmark": "codeif",
        "model": tools.subject.label,
        "problem_id": "P1",
        "sample": 0,
    }
    shared = common | {
        "episode_id": tools.episode_id("P1", 0),
        "rubric": "r",
        "judge": "j",
        "judgement_id": "1",
        "raw": "because",
        "n_calls": 1,
        "input_tokens": 40,
        "output_tokens": 7,
    }
    ratings = [
        JudgeVerdict.model_validate({**shared, "turn": 1, "dimension": "clear", "value": 4.0}),
        JudgeVerdict.model_validate(
            {**shared, "turn": 1, "dimension": "kind", "label": "friendly"}
        ),
    ]
    tools.write("judge_verdicts", ratings)
    publish(lake.home)
    return lake


def tool_run(lake: SmallLake) -> Run:
    return ToolRun(
        lake.home,
        ModelIdentity(provider="recorded", name="tools", weights_digest="c" * 32),
        samples=1,
    )


@pytest.fixture(scope="module")
def logs(lake: SmallLake) -> dict[str, Any]:
    from inspect_ai.log import list_eval_logs, read_eval_log  # pyright: ignore[reportMissingImports]

    out = lake.home.parent / "logs"
    runs = (lake.alpha_2, lake.beta, lake.gamma, tool_run(lake))
    named = [word for run in runs for word in ("--run", run.run_id)]
    done = parley(lake.home, "export", "inspect", *named, "--out", out)
    assert done.code == 0, done.err
    assert "15 samples" in done.out
    found = [read_eval_log(info) for info in list_eval_logs(str(out))]
    return {log.eval.run_id: log for log in found}


@INSTALLED
def test_samples_messages_and_output_come_back(lake: SmallLake, logs: dict[str, Any]) -> None:
    log = logs[lake.alpha_2.run_id]
    assert (log.status, log.eval.task, log.eval.model) == (
        "success",
        "codeif.static",
        "openai/alpha",
    )
    assert {(one.id, one.epoch) for one in log.samples} == {
        (p, e) for p in ("P1", "P2", "P3") for e in (1, 2)
    }
    sample = next(one for one in log.samples if (one.id, one.epoch) == ("P1", 1))
    assert [message.role for message in sample.messages[:2]] == ["user", "assistant"]
    assert sample.input[0].text == sample.messages[0].text
    assert (
        sample.output.completion == [m for m in sample.messages if m.role == "assistant"][-1].text
    )
    assert sample.metadata["episode_id"] == lake.alpha_2.episode_id("P1", 0)


@INSTALLED
def test_scores_are_means_and_what_is_unscored_is_no_score(
    lake: SmallLake, logs: dict[str, Any]
) -> None:
    log = logs[lake.alpha_2.run_id]
    by_id = {(one.id, one.epoch): one for one in log.samples}
    assert by_id["P1", 1].scores[FRACTION].value == 0.75
    assert by_id["P1", 1].scores[IA].metadata["n"] == 3
    unscored = by_id["P2", 2].metadata["unscored"]
    assert {(one["metric"], one["unscored_reason"]) for one in unscored} >= {(IA, "no_answer")}
    assert by_id["P2", 2].scores[IA].value == 1.0
    assert "instruction_forgetting_ratio" not in by_id["P2", 2].scores
    metrics = {one.name: one.metrics for one in log.results.scores}
    assert metrics[IA]["n"].value + metrics[IA]["n_unscored"].value == 14
    assert not logs[lake.gamma.run_id].results.scores  # withheld


@INSTALLED
def test_tests_have_their_output_and_usage_is_whole_or_absent(
    lake: SmallLake, logs: dict[str, Any]
) -> None:
    sample = next(
        one for one in logs[lake.alpha_2.run_id].samples if (one.id, one.epoch) == ("P1", 2)
    )
    assert sample.scores["tests"].value["passed"] == 2
    assert sample.scores["tests"].value["infra"] == 1
    assert "turn 1, base: passed" in sample.scores["tests"].explanation
    assert sample.model_usage["openai/alpha"].total_tokens > 0
    assert logs[lake.beta.run_id].stats.model_usage == {}  # nobody counted: no 0


@INSTALLED
def test_token_totals_are_those_of_the_costs(lake: SmallLake, logs: dict[str, Any]) -> None:
    _, rows = query(
        lake.home,
        (
            "select run_id, role, input_tokens, output_tokens from costs where n_unknown_tokens "
            "= 0 and calls > 0"
        ),
    )
    assert {role for _, role, *_ in rows} == {"subject", "judge"}
    for run_id, role, *tokens in rows:
        if run_id not in logs:
            continue
        name = "judge r" if role == "judge" else role
        stats = logs[run_id].stats.role_usage[name]
        assert [stats.input_tokens, stats.output_tokens] == tokens
        samples = [one.role_usage[name] for one in logs[run_id].samples if name in one.role_usage]
        assert [
            sum(one.input_tokens for one in samples),
            sum(one.output_tokens for one in samples),
        ] == tokens
    of_tools = logs[tool_run(lake).run_id].stats
    assert of_tools.model_usage["j"] == of_tools.role_usage["judge r"]


@INSTALLED
def test_each_answer_is_a_call_of_the_model_with_its_tokens_and_latency(
    lake: SmallLake, logs: dict[str, Any]
) -> None:
    sample = next(
        one for one in logs[lake.alpha_2.run_id].samples if (one.id, one.epoch) == ("P1", 2)
    )
    calls = [event for event in sample.events if event.event == "model"]
    assert [event.output.completion for event in calls] == [
        m.text for m in sample.messages if m.role == "assistant"
    ]
    assert [[m.role for m in event.input] for event in calls] == [["user"]] * 3
    assert (
        sum(event.output.usage.total_tokens for event in calls)
        == sample.model_usage["openai/alpha"].total_tokens
    )
    assert all(event.output.time == 0.5 for event in calls)
    assert calls[0].timestamp < calls[1].timestamp
    assert all(
        e.output.usage is None
        for one in logs[lake.beta.run_id].samples
        for e in one.events
        if e.event == "model"
    )


@INSTALLED
def test_tool_calls_artifacts_and_ratings_come_back(lake: SmallLake, logs: dict[str, Any]) -> None:
    sample = next(one for one in logs[tool_run(lake).run_id].samples if one.id == "P1")
    [asking] = [m for m in sample.messages if m.role == "assistant" and m.tool_calls]
    assert asking.tool_calls[0].arguments == {"x": 1}
    assert asking.tool_calls[1].parse_error
    [seen] = [m for m in sample.messages if m.role == "tool"]
    assert (seen.tool_call_id, seen.text) == ("c1", HOSTILE)
    assert sample.metadata["artifacts"] == [{"turn": 1, "content": "a note"}]
    assert sample.scores["judge r"].value == {"clear": 4.0, "kind": "friendly"}
    assert sample.scores["judge r"].explanation == "because"


@INSTALLED
def test_inspects_data_frames_show_a_run(lake: SmallLake, logs: dict[str, Any]) -> None:
    from inspect_ai import analysis  # pyright: ignore[reportMissingImports]

    frame = analysis.samples_df(str(lake.home.parent / "logs"), quiet=True)
    assert len(frame) == 15
    whole = sum(
        usage.total_tokens
        for log in logs.values()
        for one in log.samples
        for usage in one.model_usage.values()
    )
    assert frame["total_tokens"].sum() == whole > 0
    messages = analysis.messages_df(str(lake.home.parent / "logs"), quiet=True)
    assert set(messages["role"]) == {"user", "assistant", "tool"}


def test_without_inspect_or_a_run_it_says_what_to_do(
    lake: SmallLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--run RUN" in parley(lake.home, "export", "inspect", "--out", tmp_path / "x").err
    monkeypatch.setattr("flows.cli.exports.inspect_logs.find_spec", lambda name: None)
    refused = parley(
        lake.home, "export", "inspect", "--run", lake.beta.run_id, "--out", tmp_path / "x"
    )
    assert refused.code == 2
    assert "make inspect" in refused.err
