"""A run that the toolkit's authors published, through Parley and back: their own reader and pooling find what they published.

`PARLEY_UDE` names a clone of UniDial-EvalKit (public); nothing of it is kept here.
"""

import importlib.util
import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.flows.parley_command import parley
from warehouse.connect import query

TOOLKIT = os.environ.get("PARLEY_UDE")
PUBLISHED = "output/mt_eval/deepseek-v3.2"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not TOOLKIT, reason="PARLEY_UDE names no clone of UniDial-EvalKit")]


def taken_out(path: str, folder: Path) -> Path:
    """A file or folder of the clone's newest commit, which may have no work tree."""
    names = git("ls-tree", "-r", "--name-only", "HEAD", "--", path).decode().splitlines()
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(git("show", f"HEAD:{name}"))
    return folder / path


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(TOOLKIT), *arguments], check=True, capture_output=True, timeout=60).stdout


def module(path: Path, patch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"toolkit_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, spec.name, made)  # its models look their annotations up there
    spec.loader.exec_module(made)
    return made


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
    published = taken_out(PUBLISHED, tmp_path)
    dialog = module(taken_out("src/dataset/schema.py", tmp_path), monkeypatch).Dialog
    pooled = module(taken_out("src/metric/aggregator.py", tmp_path), monkeypatch).aggregate_results
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
