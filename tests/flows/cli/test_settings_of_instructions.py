"""CodeIF-Bench's dynamic and two-round settings by the command line, in the real sandbox: tables
and exports.
"""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tasks.benchmarks.codeif.settings import reviewed_instructions
from tasks.benchmarks.codeif.stage import BENCHMARK_NAME
from tasks.benchmarks.setting import fenced_reference
from tests.flows.parley_command import ask, parley, parley_process
from tests.tasks.benchmarks.codeif.dialogues import sample

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
SAMPLE = ("--dataset-version", "sample", "--workers", "1", "--json")
LATE = sample().problems[0].problem_id
"""The task whose first answer is empty and whose second one is right."""


def recording(folder: Path) -> Path:
    answers: list[dict[str, Any]] = []
    for problem in sample().problems:
        said = (
            ["", fenced_reference(problem, 2)]
            if problem.problem_id == LATE
            else [fenced_reference(problem, 1)]
        )
        answers += [
            {"problem_id": problem.problem_id, "turn": n, "sample": 0, "content": text}
            for n, text in enumerate(said, 1)
        ]
    path = folder / "late.jsonl"
    path.write_text("".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("settings")
    home = folder / "home"
    for setting, model in (
        ("dynamic", f"recorded:{recording(folder)}"),
        ("dynamic", "control:empty"),
        ("two_round", "control:gold"),
        ("two_round", "control:empty"),
    ):
        line = parley_process(
            home, "run", f"{BENCHMARK_NAME}.{setting}", "--model", model, *SAMPLE
        ).json()
        assert (line["status"], line["published"], line["n_infra"], line["n_unscored"]) == (
            "finished",
            True,
            0,
            0,
        ), (
            setting,
            line,
        )
    return home


def test_a_late_answer_takes_two_rounds_and_the_others_one(home: Path) -> None:
    rows = ask(
        home,
        "SELECT axis, turn, ia, ca_strict, ca_fraction, ife, n, n_ife FROM codeif_turns"
        " WHERE model = 'recorded:late' AND axis <> 'strategy_slot' ORDER BY axis, turn",
    )
    assert [tuple(row.values()) for row in rows] == [
        ("round_pair", 1, *[pytest.approx(8 / 9)] * 3, pytest.approx(7.5 / 9), 9, 9),
        ("turn", 1, 7 / 8, 7 / 8, 7 / 8, 7 / 8, 8, 8),
        ("turn", 2, 1, 1, 1, 0.5, 1, 1),
    ]


def test_who_passes_nothing_is_given_each_instruction_twice(home: Path) -> None:
    where = "WHERE model = 'control:empty' AND setting = 'codeif.dynamic'"
    pairs = ask(
        home,
        (
            f"SELECT turn, ia, ife, ifr, n FROM codeif_turns {where} AND axis = 'round_pair' "
            "ORDER BY turn"
        ),
    )
    dialogs = [len(reviewed_instructions(dialog.instruction_ids)) for dialog in sample().dialogs]
    assert [tuple(row.values()) for row in pairs] == [
        (pair, 0, 0, None, 2 * sum(n >= pair for n in dialogs))
        for pair in range(1, max(dialogs) + 1)
    ]


def test_two_rounds_are_pooled_by_strategy_and_level(home: Path) -> None:
    where = "WHERE setting = 'codeif.two_round'"
    rows = ask(
        home,
        f"SELECT model, level, instruction_id, ia, n FROM codeif_strategies {where} ORDER BY ALL",
    )
    ids = [name for dialog in sample().dialogs for name in dialog.instruction_ids]
    assert [tuple(row.values()) for row in rows] == sorted(
        (model, "L1", name, value, ids.count(name))
        for model, value in (("control:gold", 1), ("control:empty", 0))
        for name in set(ids)
    )
    turns = ask(
        home, f"SELECT DISTINCT turn FROM codeif_turns {where} AND axis = 'turn' ORDER BY turn"
    )
    assert [row["turn"] for row in turns] == [1, 2]


def test_the_paper_s_tables_are_exported(home: Path, tmp_path: Path) -> None:
    assert exported(home, tmp_path, "rounds")["recorded:late", "ia"]["turn_1_2"] == pytest.approx(
        8 / 9
    )
    run_id = ask(
        home,
        "SELECT run_id FROM runs WHERE setting = 'codeif.two_round' AND model = 'control:gold'",
    )[0]["run_id"]
    strategies = exported(home, tmp_path, "strategies", run_id)
    assert strategies["control:gold", "ia"]["Code Standard"] == 1
    assert strategies["control:gold", "n"]["base"] == 8


def exported(
    home: Path, folder: Path, what: str, *runs: str
) -> dict[tuple[str, str], dict[str, float]]:
    path = folder / f"{what}.csv"
    named = [part for run in runs for part in ("--run", run)]
    done = parley(home, "export", f"{BENCHMARK_NAME}-{what}", *named, "--out", path)
    assert done.code == 0, done.err
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    numbers = {
        name
        for row in rows
        for name in row
        if name.startswith("turn_") or name == "base" or " " in name
    }
    return {
        (row["model"], row["measure"]): {
            name: float(row[name]) for name in numbers if row[name] not in ("", None)
        }
        for row in rows
    }
