"""A whole night on servers that Parley starts itself: replicas, the table `serving`, what a dry run
says.

`tests/fixtures/vllm_program.py` stands in vLLM's place; `make test-vllm` plays nights on the real
one.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.crash.night import write_plugin
from tests.fixtures import vllm_program
from tests.fixtures.model_server import model_server
from tests.flows.drivers import ROOT
from tests.flows.night.test_side_by_side import released_when
from tests.flows.parley_command import SAMPLE, ask, parley, parley_process
from tests.tasks.benchmarks.judged import GOOD
from warehouse.connect import query


@pytest.mark.slow
@pytest.mark.long
def test_each_dialogue_stays_with_one_replica_and_the_tables_tell_what_they_did(
    standing_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARLEY_DASK_ADDRESS")  # servers on loopback are for workers of this machine
    weights = tmp_path / "tiny"
    weights.mkdir()
    (weights / "config.json").write_text("{}")
    (weights / "model.safetensors").write_bytes(b"weights")
    serve = ("--serve", "replicas=2", "--serve", f"command={vllm_program.install(tmp_path)}")
    asked = (*SAMPLE, "--model", f"vllm:{weights}", *serve)
    (dry,) = [parley(standing_home, *asked, "--dry-run", "--json").json()]
    assert len(dry["serves"]) == 1
    assert dry["serves"][0].endswith("# 2 times")
    done = parley(standing_home, *asked, "--json")
    report = done.json()
    assert report["published"], done.err
    of_night = (
        f"FROM serving WHERE night_id = '{report['night_id']}' GROUP BY replica ORDER BY replica"
    )
    _, servers = query(
        standing_home, f"SELECT replica, sum(requests), sum(prompt_tokens) {of_night}"
    )
    assert [row[0] for row in servers] == [0, 1]
    assert sum(row[1] for row in servers) == report["model_calls"]
    _, dialogues = query(
        standing_home,
        "SELECT episode_id, count(DISTINCT content), any_value(content) FROM turns"
        f" WHERE role = 'assistant' AND run_id = '{report['run_id']}' GROUP BY 1",
    )
    assert {row[1] for row in dialogues} == {1}
    assert len({row[2] for row in dialogues}) == 2
    _, tokens = query(
        standing_home, f"SELECT sum(input_tokens) FROM turns WHERE run_id = '{report['run_id']}'"
    )
    assert tokens[0][0] == sum(row[2] for row in servers)


@pytest.mark.slow
@pytest.mark.long
def test_a_run_whose_server_ends_at_its_start_keeps_its_id_its_reason_and_its_times(
    standing_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARLEY_DASK_ADDRESS")
    weights = tmp_path / "stillborn"
    weights.mkdir()
    (weights / "config.json").write_text('{"of": "another model"}')
    (weights / "model.safetensors").write_bytes(b"weights")
    serve = {
        "command": vllm_program.install(tmp_path),
        "environment": {"DIES_WITH": "no such device"},
    }
    config = {"workers": 1, "models": [{"spec": f"vllm:{weights}", "serve": serve}]}
    night = tmp_path / "night.yaml"
    night.write_text(
        yaml.safe_dump(
            config | {"benchmarks": [{"name": "codeif.static", "dataset_version": "sample"}]}
        )
    )
    done = parley(standing_home, "nightly", "--config", night)
    assert done.code == 1
    (run,) = (
        run
        for run in parley(standing_home, "list", "runs", "--json").json()
        if run["model"] == "vllm:stillborn"
    )
    assert (run["status"], run["n_owed"]) == ("incomplete", 8)
    assert run["withheld_reason"].startswith("stopped by an error: ")
    assert "no such device" in run["withheld_reason"]
    told = parley(standing_home, "report").out
    assert (
        f"failed (run {run['run_id'][:12]})\n  failed: model vllm:stillborn: its server "
        "ended at its start"
    ) in told
    assert "0 played" in told
    assert "time: " in told
    assert [
        row["run_id"]
        for row in ask(
            standing_home, "SELECT run_id FROM failed_runs WHERE model = 'vllm:stillborn'"
        )
    ] == [run["run_id"]]
    stages = ask(
        standing_home,
        f"SELECT DISTINCT stage FROM stage_times WHERE run_id = '{run['run_id']}' ORDER BY ALL",
    )
    assert [row["stage"] for row in stages] == ["converse", "stage"]


def night_of_two(folder: Path, benchmark: str, environment: dict[str, str], **more: Any) -> Path:
    """A night of two checkpoints whose servers may take any free device; `STARTS` is a file with a
    line for each start.
    """
    models: list[dict[str, Any]] = []
    for name in ("one", "two"):
        weights = folder / name
        weights.mkdir()
        (weights / "config.json").write_text("{}")
        (weights / "model.safetensors").write_bytes(name.encode())
        serve = {
            "command": vllm_program.install(folder),
            "devices": "auto",
            "ready_s": 120,
            "environment": environment,
        }
        models.append({"spec": f"vllm:{weights}", "serve": serve})
    night = folder / "night.yaml"
    benchmarks = [{"name": benchmark, "dataset_version": "sample"}]
    night.write_text(
        yaml.safe_dump({"workers": 1, "models": models, "benchmarks": benchmarks} | more)
    )
    return night


@pytest.mark.slow
@pytest.mark.long
def test_two_checkpoints_are_served_side_by_side_on_a_device_each(
    standing_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARLEY_DASK_ADDRESS")
    starts = tmp_path / "starts"
    night = night_of_two(tmp_path, "codeif.static", {"STARTS": str(starts), "BESIDE": "2"})
    done = parley_process(
        standing_home, "nightly", "--config", night, environ={"PARLEY_DEVICES": "4,5"}
    )
    assert done.code == 0, done.err
    assert sorted(starts.read_text().splitlines()) == ["4", "5"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_device_is_free_for_the_next_checkpoint_while_the_last_one_is_judged(
    served_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARLEY_DASK_ADDRESS", raising=False)
    write_plugin(tmp_path / "plugin", "judged", "tests.tasks.benchmarks.judged:BENCHMARK")
    path, starts, seen = (
        os.pathsep.join((str(tmp_path / "plugin"), str(ROOT))),
        tmp_path / "starts",
        list[bool](),
    )
    with model_server(holds_after=0, max_seconds=400) as judge:
        judge.answer = lambda _: GOOD
        asked = {"spec": f"openai:mock@{judge.base_url}", "revision": "1"}
        night = night_of_two(tmp_path, "judged.talk", {"STARTS": str(starts)}, judge=asked)
        watcher = released_when(
            lambda: starts.exists() and starts.read_text() == "0\n0\n", judge, seen, limit_s=600
        )
        environ = {"PARLEY_DEVICES": "0", "PYTHONPATH": path}
        done = parley_process(served_home, "nightly", "--config", night, environ=environ)
        watcher.join()
    assert done.code == 0, done.err
    assert seen == [True], "the second server waited for the judgements of the first run"


def test_a_dry_run_prints_the_command_where_vllm_is_not(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARLEY_DASK_ADDRESS", raising=False)
    monkeypatch.setenv("PARLEY_VLLM", str(tmp_path / "nowhere"))
    weights = tmp_path / "tiny"
    weights.mkdir()
    (weights / "config.json").write_text("{}")
    (weights / "model.safetensors").write_bytes(b"weights")
    asked = (*SAMPLE, "--model", f"vllm:{weights}")
    done = parley(home, *asked, "--dry-run", "--json")
    assert done.json()["serves"][0].startswith(
        f"{tmp_path / 'nowhere'} serve {weights} --served-model-name "
    )
    assert done.err.startswith(
        "vLLM is not installed on this machine. Its version is part of the ids of runs of "
        "vllm:tiny, so"
    )
    refused = parley(home, *asked)
    assert refused.code == 2, "only a dry run can do without"
    assert "need vLLM" in refused.err
    stated = parley(home, *asked, "--revision", "a", "--dry-run")
    assert (stated.code, "not on this machine" in stated.out) == (0, False)
