"""A run that the toolkit's authors published, through Parley and back: their own reader and pooling find what they published.

`PARLEY_UDE` names a clone of UniDial-EvalKit (public); nothing of it is kept here.
"""

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.clone import UNIDIAL, load_module
from tests.flows.parley_command import parley
from warehouse.connect import query

PUBLISHED = "output/mt_eval/deepseek-v3.2"
pytestmark = [pytest.mark.slow, UNIDIAL.needed]


def files(folder: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def figures(held: Any, place: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every value of nested tables by its place; figures approximately, since sums of floats depend on their order."""
    if isinstance(held, dict):
        return {key: value for name, below in held.items() for key, value in figures(below, (*place, name)).items()}
    return {place: pytest.approx(held, abs=1e-12) if isinstance(held, float) else held}


def test_their_own_reader_and_pooling_find_what_they_published(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, aggregator = "src/dataset/schema.py", "src/metric/aggregator.py"
    published = UNIDIAL.extract(tmp_path, PUBLISHED, schema, aggregator) / PUBLISHED
    dialog = load_module(tmp_path / schema, monkeypatch).Dialog
    pooled = load_module(tmp_path / aggregator, monkeypatch).aggregate_results
    recording, out = tmp_path / "answers.jsonl", tmp_path / "out"
    parley(home, "import", "unidial", published, "--model", "deepseek-v3.2", "--out", recording)
    judge = f"recorded:{recording}.judgements.jsonl"
    parley(home, "run", "unidial.mt_eval", "--data", published, "--model", f"recorded:{recording}", "--judge", judge)
    ((run_id,),) = query(home, "SELECT run_id FROM runs")[1]
    parley(home, "export", "unidial-output", "--run", run_id, "--out", out)

    for name, theirs in files(published / "generated").items():
        ours = (out / "generated" / name).read_text(encoding="utf-8")
        assert dialog.model_validate_json(ours) == dialog.model_validate(theirs)
    rows = list(chain.from_iterable(files(out / "eval_details").values()))
    expected = figures(files(published)["summary.json"]["summary"])
    assert figures(pooled(rows)) == expected
    assert figures(files(out)["summary.json"]["summary"]) == expected
