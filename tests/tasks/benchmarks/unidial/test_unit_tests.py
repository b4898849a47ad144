"""Answers that are programs: the tests that the data name on them, run in the real sandbox."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.dialog import MetricSpec, Role, Turn
from schemas.episode import Episode, Step
from tasks.benchmarks.unidial import BENCHMARK, scoring
from tasks.benchmarks.unidial.scoring import numbered_metrics
from tests.flows.parley_command import ask, parley
from tests.tasks.benchmarks.unidial.played import play

SUM = "def add(a, b):\n    return a + b"
HALF = "def add(a, b):\n    return a - b if a < 0 else a + b"
UNITTEST = (
    "import unittest\n\n\nclass Adds(unittest.TestCase):\n    def test_small(self):\n        "
    "self.assertEqual(add(1, 2), 3)\n\n"
    "    def test_negative(self):\n        self.assertEqual(add(-1, -2), -3)\n"
)
ASSERTS = ["assert add(1, 2) == 3", "assert add(2, 2) == 4", "assert add(-1, -2) == -3"]


def measured(**arguments: Any) -> dict[str, Any]:
    return {"class_name": "unit_tests", "args": arguments}


def turn(number: int, role: str, **fields: Any) -> dict[str, Any]:
    return {"turn_id": number, "role": role, "content": None, **fields}


def answered(number: int, reference: str, *metrics: dict[str, Any]) -> dict[str, Any]:
    return turn(
        number,
        "assistant",
        reference=reference,
        eval_config={"do_eval": True, "metrics": list(metrics)},
    )


ROW = {
    "dialog_id": 0,
    "dialog_turns": [
        turn(0, "user", content="Write add."),
        answered(
            1,
            f"```python\n{SUM}\n```",
            measured(tests=ASSERTS),
            measured(tests="assert add(1, 2) == 3"),
            measured(
                tests="def check(f):\n    assert f(0, 0) == 0", kind="check", entry_point="add"
            ),
        ),
        turn(2, "user", content="Again, in any block."),
        answered(
            3,
            f"So:\n```\n{SUM}\n```",
            measured(tests=UNITTEST, kind="unittest"),
            {"class_name": "precision", "args": {}},
        ),
    ],
}


def staged(folder: Path, row: dict[str, Any]) -> Any:
    (folder / "0.json").write_text(json.dumps(row), encoding="utf-8")
    return BENCHMARK.data.stage(folder, "current")


def answered_with(text: str) -> Episode:
    """A dialogue whose first round has this answer."""
    episode, _ = play("mt_eval/2", ["Sky", "Red"])
    said = (
        Step(turn=1, role=Role.USER, content="?"),
        Step(turn=1, role=Role.ASSISTANT, content=text),
    )
    return episode.model_copy(update={"steps": said})


def test_a_dialogue_with_tests_is_played_where_a_sandbox_is(tmp_path: Path) -> None:
    (dialog,) = staged(tmp_path, ROW).dialogs
    assert [name for name in BENCHMARK.settings if BENCHMARK.data.plays(name, dialog)] == [
        "tested_code"
    ]
    assert [name for name in BENCHMARK.settings if BENCHMARK.runs_programs(name)] == ["tested_code"]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"tests": []},
        {"tests": [" "]},
        {"tests": "assert add("},
        {"tests": ["assert True", "if"]},
        {"tests": "x = 1", "kind": "unittest"},
        {"tests": "def check(f): ...", "kind": "check"},
        {"tests": "x", "kind": "pytest"},
        {"tests": "x = 1", "test_name": "adds"},
        {"tests": "x = 1", "timeout": 3},
    ],
)
def test_tests_that_cannot_be_run_are_quarantined(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    (tmp_path / "1.json").write_text(json.dumps({**ROW, "dialog_id": 1}), encoding="utf-8")
    asked = [turn(0, "user", content="?"), answered(1, "-", measured(**arguments))]
    (bad,) = staged(tmp_path, {"dialog_id": 0, "dialog_turns": asked}).quarantined
    assert bad.reason == "unknown_tests"


def test_a_program_has_the_name_of_its_score() -> None:
    specs = [
        ("llm_judge", ()),
        ("unit_tests", ("tests",)),
        ("precision", ()),
        ("unit_tests", ("tests", "entry_point")),
    ]
    given = json.dumps("x = 1")
    metrics = tuple(
        MetricSpec(name=name, arguments=tuple((one, given) for one in arguments))
        for name, arguments in specs
    )
    turn = Turn(turn=1, role=Role.ASSISTANT, metrics=metrics)
    scored = [name for spec, name in numbered_metrics(turn) if scoring.is_tested(spec)]
    assert (
        [tests.name for tests in scoring.tests_of(turn)] == scored == ["unit_tests", "unit_tests#2"]
    )


BASH = "First:\n```bash\npip install it\n```\nThen:\n"


@pytest.mark.parametrize(
    "opening",
    [
        "```python",
        "```Python",
        "```python3",
        "```py",
        "```PYTHON",
        "```python ",
        "```python\t",
        "``` python",
        "```python3.11",
    ],
)
def test_the_python_block_is_run_however_it_is_tagged(tmp_path: Path, opening: str) -> None:
    made = staged(tmp_path, ROW)
    episode = answered_with(f"{BASH}{opening}\n{SUM}\n```\nDone.")
    runs = scoring.test_runs(made.problems[0], made.dialogs[0], episode, {})
    assert {run.code for run in runs if run.turn == 1} == {f"{SUM}\n"}
    assert {run.reference for run in runs} == {f"{SUM}\n"}


@pytest.mark.parametrize(
    ("answer", "code"),
    [("```\nx = 1\n```\n", "x = 1\n"), (f"{BASH}none", "pip install it\n"), ("x = 1", "x = 1")],
)
def test_without_a_python_block_the_first_one_or_the_whole_answer_is_run(
    tmp_path: Path, answer: str, code: str
) -> None:
    made = staged(tmp_path, ROW)
    runs = scoring.test_runs(made.problems[0], made.dialogs[0], answered_with(answer), {})
    assert {run.code for run in runs if run.turn == 1} == {code}


@pytest.mark.long
@pytest.mark.slow
def test_gold_passes_empty_fails_and_a_half_right_program_passes_a_share(
    standing_home: Path, tmp_path: Path, bubblewrap: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    staged(data, ROW)
    half = tmp_path / "half.jsonl"
    answers = [
        {"problem_id": "0", "turn": n, "sample": 0, "content": f"```py\n{HALF}\n```"}
        for n in (1, 2)
    ]
    half.write_text("".join(f"{json.dumps(row)}\n" for row in answers), encoding="utf-8")
    for model in ("control:gold", "control:empty", f"recorded:{half}"):
        given = ("--data", data, "--model", model, "--judge", "control:empty", "--workers", "1")
        done = parley(standing_home, "run", "unidial.tested_code", *given)
        assert done.code == 0, done.err
    names = ("unit_tests", "unit_tests#2", "unit_tests#3", "unit_tests")
    wanted = {
        "control:gold": [1.0, 1.0, 1.0, 1.0],
        "control:empty": [0.0, 0.0, 0.0, 0.0],
        "recorded:half": [2 / 3, 1.0, 1.0, 1 / 2],
    }
    for model, values in wanted.items():
        where = f"model = '{model}' AND metric = 'unit_tests' ORDER BY turn, instruction_id"
        rows = ask(standing_home, f"SELECT turn, instruction_id, value FROM scores WHERE {where}")
        assert [row["instruction_id"] for row in rows] == list(names)
        assert [row["value"] for row in rows] == pytest.approx(values)
    verdicts = ask(standing_home, "SELECT DISTINCT sandbox FROM test_verdicts")
    assert [row["sandbox"] for row in verdicts] != ["unneeded"]
