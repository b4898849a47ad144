"""Decisions against a predecessor, of a metric where lower is better, and of a night's file."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures.model_server import ModelServer, model_server
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
JUDGED = "judge=lambda asked, answer, reference: f'Rate {asked} answered {answer}'"
"""A judge in the metric's place."""
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
    rest = {"benchmarks": [{"name": str(quiz)}], "decide": {"baseline": "predecessor"}}

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
        " ".join(second.out.split()).count(
            "still significant among all decisions of the night (e-BH)"
        )
        == 2
    ), second.out


def test_a_baseline_of_the_same_night_with_other_options_is_refused(tmp_path: Path) -> None:
    model = {"spec": "openai:m@http://127.0.0.1:9/v1", "revision": "1"}
    night = {
        "models": [{"spec": "control:gold"}, model],
        "benchmarks": [{"name": "codeif.static", "dataset_version": "sample"}],
        "decide": {"baseline": "control:gold"},
    }
    config = tmp_path / "night.yaml"
    config.write_text(yaml.safe_dump(night))
    refused = parley(tmp_path / "home", "nightly", "--config", config, "--dry-run")
    assert refused.code == 2
    options = "options differ: extraction=unset for control:gold, markdown for openai:m"
    assert options in " ".join(refused.err.split())


def test_a_baseline_of_the_same_night_is_asked_whole_before_what_is_decided_against_it(
    served_home: Path, tmp_path: Path, quiz: Path
) -> None:
    home, config = served_home, tmp_path / "night.yaml"
    baseline, checkpoints = (
        recorded(tmp_path, "old", 0),
        [recorded(tmp_path, name, N_TASKS) for name in ("new-a", "new-b")],
    )
    night = {"benchmarks": [{"name": str(quiz)}], "decide": {"baseline": "recorded:old"}}

    refused = parley(
        home, "run", quiz, "--model", checkpoints[0], "--decide", "baseline=recorded:old"
    )
    assert (
        refused.code,
        "baseline 'recorded:old' has no finished run" in " ".join(refused.err.split()),
    ) == (2, True)
    assert (
        ask(home, "select 1 as n from runs") == [] if (home / "warehouse.duckdb").exists() else True
    )

    models = [{"spec": spec} for spec in (checkpoints[0], baseline, checkpoints[1])]
    nightly(home, config, {"models": models, **night})
    counts = "select model, count(*) as n from run_episodes group by model order by model"
    n_played = {row["model"]: row["n"] for row in ask(home, counts)}
    assert n_played["recorded:old"] == N_TASKS, "the baseline was not asked whole"
    assert max(n_played["recorded:new-a"], n_played["recorded:new-b"]) < N_TASKS
    found = decisions(home)
    assert [
        (row["model"], row["baseline_model"], row["decision"], row["is_night_wide"])
        for row in found
    ] == [(f"recorded:{name}", "recorded:old", "better", True) for name in ("new-a", "new-b")]

    nightly(home, config, {"models": models, "runs_at_once": 1, **night})
    assert (ask(home, counts), decisions(home)) == (
        [{"model": name, "n": n} for name, n in sorted(n_played.items())],
        found,
    )


def judge_server() -> Any:
    """A judge that likes `yes`."""
    return model_server(
        answer=lambda messages: json.dumps(
            {"reason": "-", "rating": 5 if asked_of(messages)[1] == "yes" else 1}
        )
    )


def asked_of(messages: list[dict[str, Any]]) -> tuple[str, str]:
    """(question, answer) that a judge is shown."""
    found = re.search(
        r"Rate (.*) answered (\w+)", "\n".join(str(one["content"]) for one in messages)
    )
    assert found is not None
    return found[1], found[2]


def judged_questions(server: ModelServer, answer: str) -> list[str]:
    """Questions whose answer was judged, once for each time."""
    asked = [asked_of(body["messages"]) for body in server.bodies]
    return [question for question, said in asked if said == answer]


@pytest.mark.parametrize("name", ["rated"])
def test_a_judged_metric_is_decided_in_step_and_judges_are_asked_for_what_was_played(
    served_home: Path, tmp_path: Path, name: str
) -> None:
    home, rated = served_home, benchmark_file(tmp_path, name, JUDGED)
    with judge_server() as server:
        judge = f"openai:mock@{server.base_url}"
        run(home, rated, recorded(tmp_path, "good", N_TASKS), "--judge", judge)
        assert (
            len(judged_questions(server, "yes"))
            == len(set(judged_questions(server, "yes")))
            == N_TASKS
        )

        done = run(
            home,
            rated,
            recorded(tmp_path, "bad", 0),
            "--judge",
            judge,
            "--decide",
            "baseline=recorded:good",
        )
        (row,) = decisions(home)
        assert (row["metric"], row["decision"], row["mean_difference"], row["n_asked"]) == (
            "judged_rating",
            "worse",
            -1,
            done["episodes"],
        )
        judged = judged_questions(server, "no")
        assert len(judged) == len(set(judged)) == done["episodes"] < N_TASKS / 2

        config, models = (
            tmp_path / "night.yaml",
            [{"spec": recorded(tmp_path, name, 0)} for name in ("bad-a", "bad-b")],
        )
        night = {
            "benchmarks": [{"name": str(rated)}],
            "judge": {"spec": judge},
            "decide": {"baseline": "recorded:good"},
        }
        nightly(home, config, {"models": models, **night})
        later = [row for row in decisions(home) if row["model"] != "recorded:bad"]
        assert [(row["decision"], row["n_asked"] < N_TASKS / 2) for row in later] == [
            ("worse", True)
        ] * 2
        assert len(judged_questions(server, "no")) == len(set(judged_questions(server, "no"))), (
            "a judgement was paid for twice"
        )
