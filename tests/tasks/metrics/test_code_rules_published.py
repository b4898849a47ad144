"""MemoryCode's published outputs: both readings equal the authors' own code on each of 1,512
answers of five models.

`PARLEY_MEMORYCODE` and `PARLEY_UDE` name clones of the two repositories (public); nothing of them
is kept here.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

import pytest

from tasks.metrics.code_rules import Reading, code_match
from tests.fixtures.clone import MEMORYCODE, UNIDIAL, load_module

pytestmark = [
    pytest.mark.slow,
    MEMORYCODE.needed,
    pytest.mark.filterwarnings(
        "ignore:invalid escape sequence:DeprecationWarning"
    ),  # in models' answers
]
PUBLISHED = {
    "gpt-4o": (0.5405, 0.3056),
    "Meta-Llama-3.1-405B-Instruct-Turbo": (0.3963, 0.2341),
    "Meta-Llama-3.1-70B-Instruct-Turbo": (0.3364, 0.2050),
    "Meta-Llama-3.1-8B-Instruct-Turbo": (0.1718, 0.0992),
    "command-r-plus": (0.2431, 0.1422),
}
"""Model -> the mean of the last sessions' answers by the original scorer, and by the toolkit's."""
N_ANSWERS = 1512


@dataclass(frozen=True)
class Row:
    """One answer with the rule that it is measured by."""

    answer: str
    rule: Any


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's files."""
    return MEMORYCODE.extract(tmp_path_factory.mktemp("memorycode"), "code", "dataset", "outputs")


def last_rows(folder: Path, model: str) -> Iterator[Row]:
    """Yield the last sessions' answers with their rules.

    Files with more rules than questions are left out.
    """
    for path in sorted((folder / "dataset").glob("dialogue_*.json")):
        session = json.loads(path.read_text(encoding="utf-8"))["sessions"][-1]
        output = folder / "outputs" / model / path.name.replace("dialogue", "output")
        answers = json.loads(output.read_text(encoding="utf-8"))["sessions"][-1][
            "history_model_output"
        ]
        if len(session["history_eval_query"]) == len(session["history_regex"]):
            yield from map(Row, answers, session["history_regex"])


def assert_equal(
    rows: list[Row], theirs: Callable[[Row], float | None], reading: Reading, published: float
) -> None:
    ours = [code_match(row.answer, row.rule, reading) for row in rows]
    assert [place for place, row in enumerate(rows) if theirs(row) != ours[place]] == []
    assert round(fmean(value for value in ours if value is not None), 4) == published


@pytest.mark.parametrize("model", PUBLISHED)
def test_the_original_reading_is_the_original_scorer(
    folder: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder / "code"))
    monkeypatch.setitem(sys.modules, "fire", ModuleType("fire"))  # only its command line needs it
    theirs = load_module(folder / "code" / "evaluate_model_output.py", monkeypatch).compute_score
    rows = list(last_rows(folder, model))
    assert len(rows) == N_ANSWERS
    assert_equal(rows, lambda row: theirs(row.answer, *row.rule), "original", PUBLISHED[model][0])


@UNIDIAL.needed
@pytest.mark.parametrize("model", PUBLISHED)
def test_the_toolkit_s_reading_is_the_toolkit_s_metric(
    folder: Path, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = UNIDIAL.extract(tmp_path, "src/metric") / "src" / "metric"
    package = ModuleType("toolkit")
    package.__path__ = [str(source)]
    monkeypatch.setitem(sys.modules, "toolkit", package)
    monkeypatch.setitem(
        sys.modules, "evaluate", ModuleType("evaluate")
    )  # only its other metrics need it
    for name in ("base", "extract_objects_for_code_match", "code_match"):
        load_module(source / f"{name}.py", monkeypatch, f"toolkit.{name}")
    theirs = sys.modules["toolkit.code_match"].CodeMatchMetric()
    rows = list(last_rows(folder, model))
    assert_equal(
        rows,
        lambda row: theirs.compute(row.answer, regex=row.rule)["score"],
        "ude",
        PUBLISHED[model][1],
    )
