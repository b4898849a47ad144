"""Multi-IF's own figures of a run of two dialogues: by turn and language, strict and loose."""

import csv
import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.fixtures.clone import MULTI_IF
from tests.fixtures.multi_if import load_accuracies
from tests.flows.parley_command import ask, parley

pytestmark = pytest.mark.slow
RIVER, NO_COMMA = ("keywords:existence", {"keywords": ["river"]}), ("punctuation:no_comma", {})
THREE_WORDS = ("length_constraints:number_words", {"relation": "at least", "num_words": 3})
DIALOGUES = {
    "English": ([RIVER], [RIVER, NO_COMMA]),
    "French": ([NO_COMMA], [NO_COMMA, THREE_WORDS]),
}
ANSWERS = (("A river", "Sure, so:\nA river"), ("Oui, non", "Un deux trois"))
FIGURES = {
    ("all", "1"): (2, 0.5, 0.5, 0.5, 0.5, 0.5),
    ("all", "2"): (2, 0.5, 0.75, 1.0, 1.0, 0.8125),
    ("English", "1"): (1, 1.0, 1.0, 1.0, 1.0, 1.0),
    ("English", "2"): (1, 0.0, 0.5, 1.0, 1.0, 0.625),
    ("French", "1"): (1, 0.0, 0.0, 0.0, 0.0, 0.0),
    ("French", "2"): (1, 1.0, 1.0, 1.0, 1.0, 1.0),
}
COLUMNS = (
    "n_prompts",
    "prompt_strict",
    "instruction_strict",
    "prompt_loose",
    "instruction_loose",
    "overall",
)


@pytest.fixture(scope="module")
def run(standing_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home that holds the run."""
    folder = tmp_path_factory.mktemp("multi_if")
    with (folder / "multiIF_small.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        turns = [
            f"turn_{n}_{name}"
            for n in (1, 2)
            for name in ("prompt", "instruction_id_list", "kwargs")
        ]
        rows.writerow(["key", "language", *turns])
        for language, asked in DIALOGUES.items():
            cells = [cell for turn in asked for cell in cells_of(turn)]
            rows.writerow([language, language, *cells])
    recorded = folder / "m.jsonl"
    lines = [
        json.dumps({"problem_id": str(number), "turn": turn, "sample": 0, "content": text})
        for number, texts in enumerate(ANSWERS)
        for turn, text in enumerate(texts, 1)
    ]
    recorded.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = parley(
        standing_home,
        "run",
        "unidial.multi_if",
        "--data",
        folder,
        "--model",
        f"recorded:{recorded}",
    )
    assert done.code == 0, done.err
    return standing_home


def cells_of(instructions: list[tuple[str, dict[str, object]]]) -> tuple[str, str, str]:
    names, arguments = zip(*instructions, strict=True)
    prompt = json.dumps({"role": "user", "content": "Describe a walk."})
    return prompt, json.dumps(names), json.dumps([json.dumps(one) for one in arguments])


def test_accuracies_by_turn_and_language(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    done = parley(run, "export", "unidial-multi-if", "--out", out)
    assert done.code == 0, done.err
    with out.open(encoding="utf-8") as file:
        found = {
            (row["language"], row["turn"]): tuple(float(row[name]) for name in COLUMNS)
            for row in csv.DictReader(file)
        }
    assert found == FIGURES


@MULTI_IF.needed
def test_accuracies_are_those_of_multi_if_s_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authors = load_accuracies(tmp_path, monkeypatch)
    strict, loose = defaultdict[Any, list[Any]](list), defaultdict[Any, list[Any]](list)
    for (language, asked), answers in zip(DIALOGUES.items(), ANSWERS, strict=True):
        for turn, (instructions, response) in enumerate(zip(asked, answers, strict=True), 1):
            names, arguments = zip(*instructions, strict=True)
            row = {"response": response, "instruction_id_list": names, "kwargs": arguments}
            for place in ((language, f"{turn}"), ("all", f"{turn}")):
                strict[place].append(authors.gen_acc_strict(row))
                loose[place].append(authors.gen_acc_loose(row))
    accuracies = {
        place: (*authors.parse_result(strict[place]), *authors.parse_result(loose[place]))
        for place in strict
    }
    assert {
        place: (len(strict[place]), *shares, fmean(shares)) for place, shares in accuracies.items()
    } == FIGURES


def test_pooled_figures_hold_the_strict_reading_alone(run: Path) -> None:
    pooling = "turn_stat = 'mean' AND dialog_stat = 'mean' AND dataset_level = 'turn'"
    rows = ask(run, f"SELECT count, mean FROM unidial_pooled WHERE label IS NULL AND {pooling}")
    assert [(row["count"], row["mean"]) for row in rows] == [(4, 0.625)]
