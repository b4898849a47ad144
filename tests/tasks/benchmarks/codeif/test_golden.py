"""The published runs, judged again: they agree with the published verdicts on all but the known
pairs, and give known figures.

The known pairs' one-line try/except tests were syntax errors when the verdicts were published, and
were mended before v0's files were committed.
"""

import json
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.codeif.recording import import_recording
from tasks.benchmarks.codeif.settings import FUNCTIONALITY_EXTENSION, STRATEGY_SLOT
from tests.tasks.benchmarks.codeif.sandboxed import Judged, judge

pytestmark = [pytest.mark.slow, pytest.mark.shared, pytest.mark.usefixtures("bubblewrap")]

QWEN, DEEPSEEK = "qwen2.5-7b-instruct", "deepseek-chat"
EXCEPTION, EDGE = "Exception Handling", "Edge Case Handling"
DIFFERING = {
    QWEN: {(23, EXCEPTION), (23, EDGE), (38, EXCEPTION)},
    DEEPSEEK: {(23, EXCEPTION), (23, EDGE), (38, EXCEPTION), (38, EDGE)},
}
Column = list[tuple[float | None, int]]
IA, STRICT, FRACTION, IFR = BENCHMARK.scores.metrics


def column(values: str, counts: str) -> Column:
    """Means in percent beside N; `-` where there is nothing to average."""
    pairs = zip(values.split(), counts.split(), strict=True)
    return [(None if value == "-" else float(value), int(count)) for value, count in pairs]


BY_SLOT = "50 29 50 47 49 23 47 48"
BY_SLOT_CA = "50 29 50 47 49 23 47 0"
BY_TURN = "50 50 50 50 50 47 33 13"
BY_TURN_CA = "50 49 50 49 49 34 14 0"
QWEN_FIGURES: dict[tuple[str, str], Column] = {
    ("strategy_slot", IA): column("46.0 75.9 76.0 66.0 34.7 34.8 57.4 41.7", BY_SLOT),
    ("strategy_slot", STRICT): column("46.0 58.6 36.0 29.8 16.3 0.0 2.1 -", BY_SLOT_CA),
    ("strategy_slot", FRACTION): column("46.0 69.0 62.7 58.2 55.2 55.0 54.1 -", BY_SLOT_CA),
    ("strategy_slot", IFR): column("- 17.6 10.9 18.7 18.8 21.6 20.5 -", "0 17 32 42 46 23 44 0"),
    ("turn", IA): column("46.0 76.0 74.0 42.0 52.0 46.8 48.5 23.1", BY_TURN),
    ("turn", STRICT): column("46.0 42.9 36.0 22.4 14.3 2.9 0.0 -", BY_TURN_CA),
    ("turn", FRACTION): column("46.0 61.2 64.7 54.1 53.4 60.1 60.0 -", BY_TURN_CA),
    ("turn", IFR): column("- 13.6 12.8 20.3 24.1 15.8 20.5 -", "0 22 43 46 46 33 14 0"),
}


@cache
def judged_run(model: str, data: Path) -> tuple[Judged, ...]:
    answers: dict[str, list[str]] = defaultdict(list)
    for answer in import_recording(data / "function" / "Experiments", model):
        answers[answer.problem_id].append(answer.content)
    staged = BENCHMARK.data.stage(data, "v0")
    return judge(
        staged, lambda problem, _: answers[problem.problem_id], {"answer_cleanup": "upstream_v0"}
    )


def published_verdicts(model: str, data: Path) -> dict[tuple[int, str], bool]:
    """(task, requirement) -> upstream's own verdict; cumulative for follow-ups."""
    return {
        (row["task_id"], row.get("requirement", "base")): row["passed"]
        for part in ("base", "n_round")
        for path in sorted(
            (data / "function" / "Experiments" / part / model).glob("*_results.jsonl")
        )
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())
    }


def our_verdicts(model: str, data: Path) -> dict[tuple[int, str], bool]:
    return {
        (int(judged.dialog.problem_id.removeprefix("function/")), name): judged.passed(turn)
        for judged in judged_run(model, data)
        for turn, name in enumerate(judged.dialog.instruction_ids, 1)
        if name != FUNCTIONALITY_EXTENSION
    }


@pytest.mark.long
@pytest.mark.parametrize("model", [QWEN, DEEPSEEK])
def test_the_published_verdicts_are_ours_but_for_the_known_pairs(
    model: str, shared_data: Path
) -> None:
    data = shared_data / "codeif_bench"
    ours, published = our_verdicts(model, data), published_verdicts(model, data)
    assert ours.keys() == published.keys()
    assert len(ours) == 50 + 245
    assert {pair for pair in ours if ours[pair] != published[pair]} == DIFFERING[model]


@pytest.mark.parametrize(("axis", "metric"), QWEN_FIGURES)
def test_qwen_s_figures_are_the_known_ones_on_both_axes(
    axis: str, metric: str, shared_data: Path
) -> None:
    values: dict[int, list[float]] = defaultdict(list)
    for judged in judged_run(QWEN, shared_data / "codeif_bench"):
        for score in judged.scores:
            if score.metric == metric and score.value is not None:
                place = score.turn if axis == "turn" else STRATEGY_SLOT[score.instruction_id or ""]
                values[place].append(score.value)
    found = [
        (round(100 * sum(values[n]) / len(values[n]), 1) if values[n] else None, len(values[n]))
        for n in range(1, 9)
    ]
    assert found == QWEN_FIGURES[axis, metric]
