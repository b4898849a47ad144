"""The notebook of `parley help notebooks`, run as it stands there."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from flows.notebook import evaluate
from schemas.errors import UsageError
from tasks.benchmarks.registry import BENCHMARKS
from tests.own_files import ROOT

CELL = re.compile(r"^```python\n(from flows\.notebook.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.long
@pytest.mark.slow
def test_the_notebook_of_the_page_stages_evaluates_and_queries(
    standing_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [cell] = CELL.findall(
        (ROOT / "flows" / "text" / "topics" / "notebooks.md").read_text(encoding="utf-8")
    )
    assert sum(bool(line.strip()) for line in cell.splitlines()) == 17
    monkeypatch.setenv("PARLEY_HOME", str(standing_home))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(str(BENCHMARKS.load("unidial").data.sample / "locomo"), tmp_path / "LoCoMo")
    names: dict[str, Any] = {}
    exec(compile(cell, "notebooks.md", "exec"), names)
    assert [run.status for run in names["runs"]] == ["finished", "finished"]
    scores = names["scores"]
    assert set(scores["model"]) == {"control:gold", "control:empty"}
    assert scores["n_unscored"].sum() == 0
    assert set(scores.loc[scores["model"] == "control:empty", "mean"]) == {0.0}
    assert len(names["answers"]) == 2 * names["staged"]["staged"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"colour": "red"}, "colour = 'red'"),
        ({"limit": "few"}, "limit = 'few'"),
        ({"max_tokens": 0}, "max_tokens = 0"),
        ({"simulator": 3}, "spec = 3"),
        ({"workers": 0}, "workers = 0"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_in_one_line(
    home: Path, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        evaluate("unidial.locomo", model="control:gold", **asked)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
