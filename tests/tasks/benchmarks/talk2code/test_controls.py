"""The table's two ends, through the command line and the real sandbox: gold passes every case in
three languages, empty none.
"""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.flows.parley_command import parley
from tests.tasks.benchmarks.talk2code.played import sample
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
TRACKS = ("direct", "interactive")
TOOLS = {"python": (), "java": ("javac", "java"), "javascript": ("node",)}
N_TASKS, N_DIALOGUES, N_CASES = 2, 6, {"python": 12, "java": 10, "javascript": 11}
SCORES = """
SELECT metric, min(value), max(value), count(value) FROM scores JOIN runs USING (run_id)
WHERE runs.model = '{}' AND setting = 'talk2code.{}' AND problem_id LIKE '{}/%'
AND metric IN ('success_rate', 'test_case_pass_rate') GROUP BY metric ORDER BY metric
"""
CASES = """
SELECT sum(n_cases), sum(n_passed) FROM test_verdicts JOIN runs USING (run_id)
WHERE runs.model = 'control:gold' AND setting = 'talk2code.{}' AND problem_id LIKE '{}/%'
"""


@pytest.fixture(scope="module")
def night(standing_home: Path) -> Path:
    """Both tracks.

    The simulated user says the same in each round, and is asked by the empty model alone.
    """
    config, user = standing_home.parent / "night.yaml", standing_home.parent / "user.jsonl"
    said = [
        {"problem_id": p.problem_id, "turn": n, "content": "Go on."}
        for p in sample().problems
        for n in range(2, 11)
    ]
    user.write_text("".join(f"{json.dumps(line)}\n" for line in said), encoding="utf-8")
    asked = {
        "simulator": {"spec": f"recorded:{user}"},
        "models": [{"spec": "control:gold"}, {"spec": "control:empty"}],
        "benchmarks": [
            {"name": f"talk2code.{track}", "dataset_version": "sample"} for track in TRACKS
        ],
    }
    config.write_text(yaml.safe_dump(asked), encoding="utf-8")
    done = parley(standing_home, "nightly", "--config", config)
    assert done.code == 0, done.err
    return standing_home


@pytest.mark.parametrize("track", TRACKS)
@pytest.mark.parametrize("language", TOOLS)
def test_gold_passes_each_case_and_empty_none(night: Path, language: str, track: str) -> None:
    missing = [tool for tool in TOOLS[language] if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)} here: {language} programs are unscored")
    of_all = [("success_rate", "test_case_pass_rate"), (N_DIALOGUES, N_DIALOGUES)]
    for model, value in (("control:gold", 1.0), ("control:empty", 0.0)):
        rows = query(night, SCORES.format(model, track, language))[1]
        assert [*zip(*((name, n) for name, _, _, n in rows), strict=True)] == of_all
        assert {(low, high) for _, low, high, _ in rows} == {(value, value)}
    n_cases = N_CASES[language] * N_DIALOGUES // N_TASKS
    assert query(night, CASES.format(track, language))[1] == [(n_cases, n_cases)]


def test_a_dialogue_without_delivery_has_all_replies_and_no_program(night: Path) -> None:
    of_empty = (
        "JOIN runs USING (run_id) WHERE runs.model = 'control:empty' AND setting = "
        "'talk2code.interactive'"
    )
    assert query(night, f"SELECT DISTINCT turn, outcome FROM test_verdicts {of_empty}")[1] == [
        (10, "error")
    ]
    assert query(night, f"SELECT max(turn), count(*) FROM turns {of_empty}")[1] == [(10, 18 * 20)]
