"""Decisions against a predecessor, of a metric where lower is better, and of a night's file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.flows.parley_command import Done, ask, parley

pytestmark = [pytest.mark.slow, pytest.mark.long]
N_TASKS = 60
BENCHMARK_FILE = '''
from tasks.benchmarks.one_file import Item, benchmark
from tasks.metrics.registry import metric

@metric("{name}_missed", better="lower")
def missed(answer, reference):
    """1 where the answer is another than the reference."""
    return float(answer.strip() != reference)

@benchmark("{name}", {scored_by})
def TASKS(row):
    return Item(row["id"], [row["question"]], reference="yes")
'''
DECISIONS = "select * from decisions order by model, metric"


@pytest.fixture
def name() -> str:
    return "quiz"


@pytest.fixture
def quiz(tmp_path: Path, name: str) -> Path:
    """A benchmark of one file, whose metric is lower for better answers."""
    return benchmark_file(tmp_path, name, "metric=missed")


def benchmark_file(folder: Path, name: str, scored_by: str) -> Path:
    rows = [{"id": f"q{number:02}", "question": f"Question {number}?"} for number in range(N_TASKS)]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = folder / f"{name}.py"
    path.write_text(BENCHMARK_FILE.format(name=name, scored_by=scored_by))
    return path


def recorded(folder: Path, name: str, n_right: int) -> str:
    """A model that answers the first tasks rightly."""
    answers = [
        {
            "problem_id": f"q{number:02}",
            "turn": 1,
            "sample": 0,
            "content": "yes" if number < n_right else "no",
        }
        for number in range(N_TASKS)
    ]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    return f"recorded:{path}"


def run(home: Path, benchmark: object, model: str, *more: object) -> dict[str, Any]:
    said = ("run", benchmark, "--model", model, "--workers", "1", "--concurrency", "4", "--json")
    return parley(home, *said, *more).json()


def decisions(home: Path) -> list[dict[str, Any]]:
    return ask(home, DECISIONS)


def test_less_is_better_where_the_metric_says_so_and_tasks_that_the_baseline_lacks_are_left_out(
    served_home: Path, tmp_path: Path, quiz: Path
) -> None:
    home, n_known = served_home, 40
    run(home, quiz, recorded(tmp_path, "poor", 0), "--limit", n_known)
    done = run(
        home, quiz, recorded(tmp_path, "good", N_TASKS), "--decide", "baseline=recorded:poor"
    )
    (row,) = decisions(home)
    assert (row["decision"], row["mean_difference"], row["mean"], row["n_left_out"]) == (
        "better",
        -1,
        0,
        N_TASKS - n_known,
    )
    assert (row["n_asked"] < n_known, row["n_total"], row["is_night_wide"]) == (True, n_known, None)
    assert -1 <= row["low"] < row["high"] < 0 <= row["mean_low"] < row["mean_high"]
    assert row["n_asked"] <= done["episodes"] < n_known
    known = {f"q{number:02}" for number in range(n_known)}
    assert {one["problem_id"] for one in ask(home, "select problem_id from run_episodes")} == known

    back = run(home, quiz, recorded(tmp_path, "worse", 0), "--decide", "baseline=recorded:good")
    assert back["episodes"] < done["episodes"] + 1
    worse = next(row for row in decisions(home) if row["model"] == "recorded:worse")
    assert (worse["decision"], worse["mean_difference"], worse["low"] > 0) == ("worse", 1, True)
    assert (worse["n_total"], worse["n_left_out"]) == (done["episodes"], N_TASKS - done["episodes"])


def nightly(home: Path, config: Path, settings: Mapping[str, object]) -> Done:
    config.write_text(yaml.safe_dump({"workers": 1, "concurrency": 4, **settings}))
    done = parley(home, "nightly", "--config", config)
    assert done.code == 0, done.err
    return done


def test_a_night_decides_two_checkpoints_by_their_predecessor_and_says_what_holds_together(
    served_home: Path, tmp_path: Path, quiz: Path
) -> None:
    home, config = served_home, tmp_path / "night.yaml"
    rest = {
        "benchmarks": [{"name": str(quiz)}],
        "runs_at_once": 1,
        "decide": {"baseline": "predecessor"},
    }

    def models(*names: tuple[str, int]) -> list[dict[str, str]]:
        return [{"spec": recorded(tmp_path, name, n), "family": "mine"} for name, n in names]

    first = nightly(home, config, {"models": models(("step-1", 0)), **rest})
    assert (decisions(home), "Decided" in first.out) == ([], False)
    assert ask(home, "select count(*) as n from run_episodes") == [{"n": N_TASKS}]

    second = nightly(
        home, config, {"models": models(("step-2", N_TASKS), ("step-3", N_TASKS)), **rest}
    )
    better, equal = decisions(home)
    assert (better["model"], better["baseline_model"], better["decision"]) == (
        "recorded:step-2",
        "recorded:step-1",
        "better",
    )
    assert (equal["model"], equal["baseline_model"], equal["decision"]) == (
        "recorded:step-3",
        "recorded:step-2",
        "equivalent",
    )
    assert better["n_asked"] < N_TASKS
    assert equal["n_total"] <= N_TASKS - equal["n_left_out"]
    assert (better["is_night_wide"], equal["is_night_wide"]) == (True, True), (
        better["e_value"],
        equal["e_value"],
    )
    assert (
        " ".join(second.out.split()).count("it holds together with the night's others (e-BH)") == 2
    ), second.out
