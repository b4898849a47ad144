"""Nights over a growing folder of checkpoints: each is evaluated once, newest first, and the older
ones when there is room.
"""

import gzip
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.flows.parley_command import Done, ask, parley
from tests.tasks.checkpoints.weight_folders import LONG_AGO_S, MINUTE_S, changed, checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]
PROBLEM = "Sample/1"
CHECKPOINTS = "select model, family, step, kind, digest, found_at from checkpoints order by step"


def record(folder: Path, step: int, content: str, at_s: float, problem: str = PROBLEM) -> None:
    """A recording of one answer in the place of a checkpoint."""
    folder.mkdir(exist_ok=True)
    lines = f'{{"problem_id": "{problem}", "turn": 1, "content": "{content}"}}\n'
    path = folder / f"step-{step}.jsonl.gz"
    path.write_bytes(gzip.compress(lines.encode()))
    os.utime(path, (at_s, at_s))


PRICED = {"usd_per_million_input": 1.0, "usd_per_million_output": 1.0}
"""With a price a recording stands for a model that is asked; without one its answers cost
nothing.
"""


def configured(folder: Path, **settings: Any) -> Path:
    config = folder / "night.yaml"
    benchmark = {"name": "convcode.live[none]", "dataset_version": "sample", "limit": 1}
    config.write_text(yaml.safe_dump({"workers": 1, "benchmarks": [benchmark], **settings}))
    return config


def states(home: Path, config: Path) -> list[tuple[str, str, int]]:
    rows = parley(home, "checkpoints", "--config", config, "--json").json()
    return [(row["checkpoint"], row["state"], row["calls"]) for row in rows]


def night(home: Path, config: Path, *flags: str, code: int = 0) -> Done:
    done = parley(home, "nightly", "--config", config, *flags)
    assert done.code == code, done.err
    return done


@pytest.mark.long
def test_each_checkpoint_is_evaluated_once_newest_first_and_then_the_older_ones(
    standing_home: Path, tmp_path: Path
) -> None:
    tuned = tmp_path / "tuned"
    for step in (1, 2):
        record(tuned, step, f"answer {step}", LONG_AGO_S + step * MINUTE_S)
    config = configured(tmp_path, sources=[{"recordings": "tuned", "at_most": 1, "ask": PRICED}])
    assert states(standing_home, config) == [
        ("tuned/step-2", "tonight", 1),
        ("tuned/step-1", "later", 1),
    ]
    night(standing_home, config)
    record(tuned, 3, "answer 3", LONG_AGO_S + 3 * MINUTE_S)
    assert [state for _, state, _ in states(standing_home, config)] == ["tonight", "done", "later"]
    night(standing_home, config)
    night(standing_home, config)
    assert states(standing_home, config) == [(f"tuned/step-{n}", "done", 0) for n in (3, 2, 1)]
    assert "No checkpoint has pending evaluations" in night(standing_home, config).err

    rows = ask(standing_home, CHECKPOINTS)
    assert [(row["model"], row["family"], row["step"], row["kind"]) for row in rows] == [
        (f"recorded:tuned/step-{n}", "tuned", n, "recordings") for n in (1, 2, 3)
    ]
    assert [row["step"] for row in sorted(rows, key=lambda row: row["found_at"])] == [2, 3, 1]
    joined = ask(
        standing_home,
        (
            "select model, revision = digest as same from runs join checkpoints using (model) "
            "order by model"
        ),
    )
    assert joined == [{"model": f"recorded:tuned/step-{n}", "same": True} for n in (1, 2, 3)]


@pytest.mark.long
def test_one_that_is_withheld_keeps_no_other_back_and_is_done_when_it_is_released(
    standing_home: Path, tmp_path: Path
) -> None:
    record(tmp_path / "lossy", 1, "whole", LONG_AGO_S)
    record(tmp_path / "lossy", 2, "lost", LONG_AGO_S + MINUTE_S, problem="another task")
    config = configured(tmp_path, sources=[{"recordings": "lossy", "at_most": 1}])

    def found() -> dict[str, str]:
        return {name: state for name, state, _ in states(standing_home, config)}

    night(standing_home, config, code=3)
    assert found() == {"lossy/step-2": "later", "lossy/step-1": "tonight"}
    (newest, _) = parley(standing_home, "checkpoints", "--config", config, "--json").json()
    assert "failed or was withheld" in newest["why"]
    night(standing_home, config)
    assert found() == {"lossy/step-2": "tonight", "lossy/step-1": "done"}
    (run,) = ask(standing_home, "select run_id from runs where model = 'recorded:lossy/step-2'")
    assert (
        parley(
            standing_home, "release", run["run_id"], "--because", "its only task is lost for good"
        ).code
        == 0
    )
    assert found() == {"lossy/step-2": "done", "lossy/step-1": "done"}


@pytest.mark.long
def test_one_whose_server_does_not_start_keeps_no_other_back(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(
        "PARLEY_DASK_ADDRESS", raising=False
    )  # servers on loopback are for workers of this machine
    for step in (1, 2):
        checkpoint(
            tmp_path / "broken" / f"step-{step}",
            weights=f"{step}234".encode(),
            changed_s=LONG_AGO_S + step * MINUTE_S,
        )
    ends_at_once = {"serve": {"command": "/bin/false", "restarts": 0}}
    config = configured(
        tmp_path, sources=[{"directory": "broken", "at_most": 1, "ask": ends_at_once}]
    )
    assert [state for _, state, _ in states(home, config)] == ["tonight", "later"]
    done = parley(home, "nightly", "--config", config)
    assert "its server ended at its start" in done.err
    assert [state for _, state, _ in states(home, config)] == ["later", "tonight"]


def test_a_backfill_takes_all_that_is_pending(home: Path, tmp_path: Path) -> None:
    for step in (1, 2):
        record(tmp_path / "tuned", step, f"answer {step}", LONG_AGO_S + step * MINUTE_S)
    config = configured(tmp_path, sources=[{"recordings": "tuned", "at_most": 1}])
    for flags, steps in (((), [2]), (("--backfill",), [2, 1])):
        dry = night(home, config, *flags, "--dry-run", "--json")
        assert [step for step in (2, 1) if f"recorded:tuned/step-{step}" in dry.out] == steps


@pytest.mark.long
def test_weights_that_were_asked_by_another_name_are_not_asked_again(
    standing_home: Path, tmp_path: Path
) -> None:
    record(tmp_path / "other", 1, "by hand", LONG_AGO_S)
    night(standing_home, configured(tmp_path, models=[{"spec": "recorded:other/step-1.jsonl.gz"}]))
    config = configured(tmp_path, sources=[{"recordings": "other"}])
    assert states(standing_home, config) == [("other/step-1", "done", 0)]
    asked_otherwise = configured(
        tmp_path, sources=[{"recordings": "other", "ask": PRICED | {"temperature": 1.0}}]
    )
    assert states(standing_home, asked_otherwise) == [("other/step-1", "tonight", 1)]


def test_a_checkpoint_s_cost_is_a_dry_run_s_and_nothing_is_written_by_looking(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARLEY_DASK_ADDRESS", raising=False)
    checkpoint(tmp_path / "ckpts" / "checkpoint-10")
    changed(checkpoint(tmp_path / "ckpts" / "checkpoint-20", weights=b"more"), 4_000_000_000.0)
    prices = {"usd_per_million_input": 1000.0, "usd_per_million_output": 1000.0}
    config = configured(tmp_path, sources=[{"directory": "ckpts", "ask": prices}])
    newest, older = parley(home, "checkpoints", "--config", config, "--json").json()
    assert (newest["state"], newest["calls"], newest["usd"]) == ("waiting", 0, None)
    assert "it changed 0 minutes ago" in newest["why"]
    dry = parley(home, "nightly", "--config", config, "--dry-run", "--json").json()
    assert (older["calls"], older["input_tokens"], older["usd"]) == (
        dry["calls"],
        dry["input_tokens"],
        dry["usd"],
    )
    assert dry["model"] == "vllm:ckpts/checkpoint-10"
    assert not (home / "lake").exists()


def test_a_source_that_is_away_voids_no_night_of_other_models_but_one_of_nothing_else(
    home: Path, tmp_path: Path
) -> None:
    config = configured(
        tmp_path, models=[{"spec": "control:gold"}], sources=[{"directory": "away"}]
    )
    done = parley(home, "nightly", "--config", config, "--dry-run")
    assert done.code == 0
    assert "away could not be read" in done.err
    done = parley(
        home, "nightly", "--config", configured(tmp_path, sources=[{"directory": "away"}])
    )
    assert done.code == 2
    assert "Is its disk mounted?" in done.err
