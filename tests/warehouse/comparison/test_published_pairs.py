"""Decisions about models whose verdicts are published, and how much was asked for them."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from tests.bench.sequence import CASES, MARGIN, LabCase, lab_shares, passed_shares, published_pairs

FOLDERS = ("function/Experiments/base", "function/Experiments/n_round")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_every_decision_about_published_models_agrees_with_the_whole_data(seed: int) -> None:
    pairs = list(published_pairs(seed))
    assert len(pairs) == 36
    early = [pair for pair in pairs if pair.n_asked < pair.n_total]
    assert len(early) > len(pairs) / 2
    for pair in pairs:
        is_right = {
            "better": pair.difference > 0,
            "equivalent": abs(pair.difference) < MARGIN,
            "all_asked": True,
        }
        assert is_right.get(pair.decision, False), pair


@pytest.mark.shared
@pytest.mark.parametrize("model", ["qwen2.5-7b-instruct", "deepseek-chat"])
def test_the_counts_are_those_of_the_published_files(shared_data: Path, model: str) -> None:
    passed: dict[str, list[bool]] = defaultdict(list)
    for folder in FOLDERS:
        for file in (shared_data / "codeif_bench" / folder / model).glob("*_results.jsonl"):
            for line in file.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                passed[f"function/{row['task_id']}"].append(row["passed"])
    assert {problem: sum(found) / len(found) for problem, found in passed.items()} == pytest.approx(
        passed_shares()[model]
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[:4], ids=lambda case: f"{case.n}-{case.difference}")
def test_decisions_ask_about_as_much_as_the_lab_said(case: LabCase) -> None:
    found = lab_shares(case, n_orders=20)
    assert found.not_worse <= case.lab_not_worse * 1.25
    if case.lab_sign is not None:
        assert found.sign <= case.lab_sign * 1.25
