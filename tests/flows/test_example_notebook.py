"""flows/reading_results.ipynb: each of its cells runs, in order, on published results; it holds no
output of anybody's.
"""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.own_files import ROOT
from tests.warehouse.small_lake import SmallLake

NOTEBOOK = ROOT / "flows" / "reading_results.ipynb"


def cells(kind: str) -> list[dict[str, Any]]:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    return [cell for cell in found["cells"] if cell["cell_type"] == kind]


def run_as_a_kernel_does(source: str, names: dict[str, Any]) -> Any:
    """Run a cell; returns what its last line shows."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    return (
        None
        if last is None
        else eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
    )


def test_it_holds_no_outputs() -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells("code"))
    assert len(cells("markdown")) >= 5


@pytest.mark.slow
def test_each_cell_runs_on_published_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tasks.planning.reporting.publishing import publish_to_warehouse
    from tasks.storage.home import Home

    lake = SmallLake(tmp_path / "home").write_all()
    publish_to_warehouse(Home.at(lake.home))
    monkeypatch.setenv("PARLEY_HOME", str(lake.home))
    names: dict[str, Any] = {}
    shown = [run_as_a_kernel_does("".join(cell["source"]), names) for cell in cells("code")]
    board, pivot, counted, nothing, chart, longest = shown
    assert set(board["model"]) == {"openai:alpha", "recorded:beta"}
    assert pivot.loc["instruction_accuracy", ("codeif.static", "recorded:beta")] == 1.0
    assert counted.sum() == len(names["failures"]) > 0
    assert nothing is None
    assert "assistant: answer" in capsys.readouterr().out
    drawn = chart.to_dict()
    assert [one["mark"]["type"] for one in drawn["layer"]] == ["line", "rule"]
    assert len(names["curve"]) > 2
    assert list(longest.columns) == ["model", "turn", "tokens"]
