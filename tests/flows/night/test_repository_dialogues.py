"""Dialogues about repositories through the command line: a sample of the instances, and one that
judges rate.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.flows.parley_command import parley
from tests.tasks.benchmarks.dialogue_swebench.graded import LEDGER, RETRIER, SLUGS
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long]
NAME = "dialogue_swebench"
FIX = {
    "command": "str_replace",
    "path": "src/retrier/core.py",
    "old_str": "clock() - begun > deadline_s",
    "new_str": "clock() - begun + pause > deadline_s",
}


def recorded(path: Path, *answers: Mapping[str, Any]) -> str:
    path.write_text(
        "".join(
            f"{json.dumps({'problem_id': RETRIER, 'turn': 1, 'content': '', **one})}\n"
            for one in answers
        )
    )
    return f"recorded:{path}"


def call(tool: str, number: int, **arguments: str) -> list[dict[str, str]]:
    return [{"call_id": f"c{number}", "name": tool, "arguments": json.dumps(arguments)}]


def judgement(rubric: str, turn: int, **answer: object) -> dict[str, Any]:
    return {"benchmark": NAME, "rubric": rubric, "turn": turn, "content": json.dumps(answer)}


def test_a_judged_dialogue_has_every_figure_of_the_paper(
    standing_home: Path, tmp_path: Path
) -> None:
    """The agent asks once, is answered, mends the bug and ends; the user's reply is checked; four
    rubrics judge it.
    """
    subject = recorded(
        tmp_path / "subject.jsonl",
        {"step": 0, "calls": call("bash", 1, command="ls src")},
        {
            "step": 1,
            "calls": call("message_user", 2, message="After which pause should it give up?"),
        },
        {"turn": 2, "step": 0, "calls": call("edit_file", 3, **FIX)},
        {"turn": 2, "step": 1, "calls": call("finish", 4, message="It gives up in time now.")},
    )
    said = "Where the pause would end after the deadline."
    user = recorded(
        tmp_path / "user.jsonl",
        {"turn": 2, "content": said},
        {"turn": 2, "step": 1, "content": '{"violations": []}'},
    )
    judge = recorded(
        tmp_path / "judge.jsonl",
        judgement("information_seeking", 1, asks=True),
        judgement("naturalness", 0, rating=3),
        judgement("coherence", 0, is_local=True, is_global=False),
        judgement("user_turn", 2, faithful=True, on_goal=True, in_environment=False),
    )
    asked = (
        "run",
        f"{NAME}.full_judged",
        "--dataset-version",
        "sample",
        "--agent",
        "interactive",
        "--model",
        subject,
    )
    asked = (
        *asked,
        "--simulator",
        user,
        "--judge",
        judge,
        "--max-fault-share",
        "1",
        "--workers",
        "1",
        "--json",
    )
    done = parley(standing_home, *asked)
    line = done.json()
    scores = dict(
        query(
            standing_home,
            (
                f"select metric, value from scores where problem_id = '{RETRIER}' and run_id = "
                f"'{line['run_id']}'"
            ),
        )[1]
    )
    assert scores == {
        "resolved": 1.0, "dialogue_turns": 1.0, "agent_steps": 4.0, "user_revised": 0.0, "information_seeking": 1.0,
        "naturalness": 3.0, "coherence": 2.0, "user_faithful": 1.0, "user_on_goal": 1.0, "user_in_environment": 0.0,
        "user_without_fault": 0.0,
    }  # fmt: skip
    missing = query(
        standing_home,
        (
            "select distinct problem_id from scores where value is null and run_id = "
            f"'{line['run_id']}'"
        ),
    )[1]
    assert sorted(name for (name,) in missing) == sorted([LEDGER, SLUGS]), (
        "the recording has no other instance"
    )
    (table4,) = query(
        standing_home,
        (
            f"select faithful, in_environment, all_three, n from {NAME}_user where level = "
            f"'turn' and run_id = '{line['run_id']}'"
        ),
    )[1]
    assert table4 == (1.0, 0.0, 0.0, 1)
    (episode,) = query(
        standing_home,
        (
            f"select episode_id from scores where problem_id = '{RETRIER}' and metric = "
            f"'resolved' and run_id = '{line['run_id']}'"
        ),
    )[1]
    shown = parley(standing_home, "show", episode[0]).out
    numbered = query(
        standing_home,
        (
            f"select position, turn, role from steps where episode_id = '{episode[0]}' order by "
            "position"
        ),
    )[1]
    heads = [line for line in shown.splitlines() if line.startswith("── step ")]
    assert len(heads) == len(numbered)
    assert [head.removesuffix(" ──").split(" · ")[:3] for head in heads] == [
        [f"── step {n}", f"turn {turn}", role] for n, turn, role in numbered
    ]
    notes = ("artifact · draft, sent unchanged", "artifact · check of the draft")
    assert [sum(note in head for head in heads) for note in notes] == [1, 1]
    ratings = tmp_path / "ratings.csv"
    ratings.write_text(
        f"episode_id,turn,rubric,dimension,rater,value\n{episode[0]},0,naturalness,,ann,3\n{episode[0]},0,coherence,,ann,2\n"
    )
    assert parley(standing_home, "import", "ratings", ratings).code == 0
    table2 = tmp_path / "table2.csv"
    assert (
        parley(
            standing_home, "export", f"{NAME}-judges", "--run", line["run_id"], "--out", table2
        ).code
        == 0
    )
    told = [row.split(",")[:6] for row in table2.read_text().splitlines()[1:]]
    assert [(row[0], row[5]) for row in told] == [("naturalness", "1"), ("coherence", "1")]


def test_a_sample_asks_its_share_and_says_so(standing_home: Path) -> None:
    asked = (
        "run",
        f"{NAME}.full",
        "--dataset-version",
        "sample",
        "--model",
        "control:gold",
        "--workers",
        "1",
    )
    line = parley(standing_home, *asked, "--option", "sample=stratified:2", "--json").json()
    of_run = f"run_id = '{line['run_id']}' and axis = 'all'"
    figures = 'axis, "sample", n_dialogues, resolved, round(task_share, 3)'
    rows = query(standing_home, f"select {figures} from {NAME}_agents where {of_run}")[1]
    assert rows == [("all", "stratified:2", 2, 1.0, 0.667)]
    whole = parley(standing_home, *asked).out
    assert "tasks)" not in whole
    again = parley(standing_home, *asked, "--option", "sample=stratified:2").out
    assert "(66.7% of its tasks)" in again
    shared = (
        "select count(distinct episode_id), count(distinct run_id) from run_episodes where "
        "benchmark = 'dialogue_swebench'"
    )
    members = query(standing_home, f"{shared} and model = 'control:gold'")[1]
    assert members == [(3, 2)], "a sample's dialogues are those of a run that has all"
    refused = parley(standing_home, *asked, "--option", "sample=half")
    assert (refused.code, "must be one of all, stratified:N[:SEED]" in refused.err) == (2, True)
