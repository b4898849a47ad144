"""Artifacts have keys and descriptions that a person knows, and few requests keep them up to
date.
"""

from pathlib import Path
from typing import Any

import pytest

from flows.orchestration import artifacts
from flows.orchestration.artifacts import ProgressArtifact, show_results
from tasks.planning.reporting.report import RunReport
from tasks.storage.home import Home

PAIR = {
    "run_id": "b" * 32,
    "other_run_id": "a" * 32,
    "setting": "b.static",
    "model": "m@2",
    "against": "predecessor",
}
MEASURED = {
    "other_mean": 0.9,
    "mean": 0.5,
    "difference": -0.4,
    "ci_low": -0.6,
    "ci_high": -0.2,
    "q_value": 0.01,
    "mde": 0.3,
}
ROW = {
    **PAIR,
    **MEASURED,
    "other_model": "m@1",
    "metric": "accuracy",
    "n_problems": 20,
    "event": "regression",
    "interval_kind": "bootstrap",
    "decision": None,
    "judge_n": 8,
    "judge_n_changed": 3,
    "judge_mean_shift": None,
}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is asked of Prefect's server, in order."""
    asked: list[dict[str, Any]] = []

    def ask(*given: Any, **named: Any) -> str:
        asked.append({"given": given, **named})
        return "an id"

    for name in (
        "create_markdown_artifact",
        "create_progress_artifact",
        "update_progress_artifact",
    ):
        monkeypatch.setattr(f"prefect.artifacts.{name}", ask)
    return asked


def shown(
    home: Path, rows: list[dict[str, Any]], made: list[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    report = RunReport(
        run_id="b" * 32, title="b.static · m@2", setting="b.static", model="m@2", status="finished"
    )
    show_results("20261101T020000", "the leaderboard", rows, Home(home), [report])
    return {artifact["key"]: artifact for artifact in made}


@pytest.mark.slow
def test_a_comparison_is_an_artifact_of_its_own(tmp_path: Path, made: list[dict[str, Any]]) -> None:
    found = shown(tmp_path, [ROW, {**ROW, "metric": "forgetting", "event": None}], made)
    assert list(found) == ["leaderboard", "comparison", "checks"]
    comparison = found["comparison"]
    assert comparison["description"] == (
        "Comparison of night 20261101T020000: regressions: 1, improvements: 0, pairs of runs: 1"
    )
    assert "| regression | 3 of 8 |" in comparison["given"][0]
    assert "MDE: minimal detectable effect" in comparison["given"][0]
    assert "| regression |" not in found["leaderboard"]["given"][0]
    assert (
        f"`PARLEY_HOME={tmp_path} parley report 20261101T020000` shows this night's work"
        in found["leaderboard"]["given"][0]
    )


@pytest.mark.slow
def test_with_a_site_every_artifact_links_to_it(tmp_path: Path, made: list[dict[str, Any]]) -> None:
    report = RunReport(
        run_id="b" * 32, title="b.static · m@2", setting="b.static", model="m@2", status="finished"
    )
    show_results(
        "20261101T020000",
        "the leaderboard",
        [ROW],
        Home(tmp_path),
        [report],
        "https://pages.test/parley/",
    )
    texts = {
        artifact["key"]: artifact["given"][0] if artifact["given"] else artifact["markdown"]
        for artifact in made
    }
    assert "(https://pages.test/parley/nights/20261101T020000.html)" in texts["leaderboard"]
    assert f"(https://pages.test/parley/compared/{'a' * 12}-{'b' * 12}.html)" in texts["comparison"]
    assert f"(https://pages.test/parley/runs/{'b' * 12}.html)" in texts["checks"]


@pytest.mark.slow
def test_a_night_without_a_predecessor_shows_no_comparison(
    tmp_path: Path, made: list[dict[str, Any]]
) -> None:
    assert list(shown(tmp_path, [], made)) == ["leaderboard", "checks"]


@pytest.mark.slow
def test_progress_is_found_by_its_stage_and_costs_one_request_an_update(
    made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr(artifacts.time, "monotonic", lambda: now_s)
    progress = ProgressArtifact("b.static · vllm:ck4/checkpoint-2", "converse", 4)
    progress.advance(1)
    now_s = 104.0
    progress.advance(1)
    now_s = 105.5
    progress.advance(1)
    progress.done()
    assert made[0] == {
        "given": (75.0,),
        "key": "progress-converse",
        "description": "b.static · vllm:ck4/checkpoint-2: converse",
    }
    assert [one["given"] for one in made[1:]] == [("an id", 100.0)]
