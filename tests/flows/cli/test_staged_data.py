"""Raw data of a user through the command line: staged, quarantined, mended, and staged by a night."""

import json
from pathlib import Path

import pytest
import yaml

from tests.flows.drivers import ROOT
from tests.flows.parley_command import ask, parley

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]


def test_mended_rows_leave_the_quarantine(standing_home: Path, tmp_path: Path) -> None:
    sample = next(
        p for p in (ROOT / "tasks/benchmarks/codeif/sample").iterdir() if p.name.endswith(".jsonl")
    )
    lines = sample.read_text().splitlines()
    data = tmp_path / "L_1_part_1.jsonl"
    for text, staged, quarantined in (
        ("\n".join([*lines[:-1], lines[-1][:40]]), 7, 1),
        ("\n".join(lines), 8, 0),
    ):
        data.write_text(text)
        counts = parley(standing_home, "stage", "codeif", "--data", data, "--json").json()
        assert (counts["rows"], counts["staged"], counts["quarantined"]) == (8, staged, quarantined)
        parley(standing_home, "publish")
        assert ask(
            standing_home, "SELECT count(*) n FROM quarantine WHERE dataset_version = 'current'"
        ) == [{"n": quarantined}]


@pytest.mark.long
def test_a_night_stages_raw_data_and_one_bad_run_does_not_cost_the_others(
    standing_home: Path, tmp_path: Path
) -> None:
    sample = next(
        p for p in (ROOT / "tasks/benchmarks/codeif/sample").iterdir() if p.name.endswith(".jsonl")
    )
    (tmp_path / "L_1_part_1.jsonl").write_text(sample.read_text() + "{torn")
    night = {
        "models": [{"spec": "openai:m@http://127.0.0.1:9/v1"}, {"spec": "control:gold"}],
        "benchmarks": [{"name": "codeif.static", "data": ".", "dataset_version": "v0", "limit": 1}],
    }
    (tmp_path / "night.yaml").write_text(yaml.safe_dump(night))
    done = parley(standing_home, "nightly", "--config", tmp_path / "night.yaml", "--json")
    assert done.code == 1
    assert "canary in sandbox zygote: " in done.err
    assert "127.0.0.1:9" in done.err
    statuses = {line["model"]: line["status"] for line in map(json.loads, done.out.splitlines())}
    assert statuses["control:gold"] == "finished"
    assert {
        line["model"]: line["results"] is None for line in map(json.loads, done.out.splitlines())
    } == {model: status == "failed" for model, status in statuses.items()}
    assert sorted(statuses.values()) == ["failed", "finished"]
    sql = (
        "SELECT mean FROM leaderboard WHERE dataset_version = 'v0' AND metric = "
        "'instruction_accuracy'"
    )
    assert ask(standing_home, sql) == [{"mean": 1.0}]
    assert ask(
        standing_home, "SELECT source_line, reason FROM quarantine WHERE dataset_version = 'v0'"
    ) == [{"source_line": 9, "reason": "broken_json"}]
