"""Live runs and replays are scored as by the authors' own script, task by task.

`PARLEY_CONVCODEWORLD` names a clone of the repository (public); nothing of it is kept here.
"""

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest

from tasks.benchmarks.convcode.scoring import score
from tests.fixtures.clone import CONVCODEWORLD, load_module
from tests.tasks.benchmarks.convcode.played import by_metric, live, request, static

pytestmark = [pytest.mark.slow, CONVCODEWORLD.needed]
SCRIPT, LAST, N_TASKS = "convcodeworld/print_results.py", 10, 200
UNUSED = ("azure_open_ai", "dataset", "pot", "prettytable", "run", "utils")
"""Modules that the script imports for its files and tables."""


@dataclass(frozen=True)
class Replayed:
    """One task of a replay, turn by turn."""

    reference: tuple[bool, ...]
    marks: str
    """`+` and `-` for the target's answers; blank where the reference's code counts."""

    @property
    def solved_at(self) -> int | None:
        return next((turn for turn, ok in enumerate(self.reference) if ok), None)

    @property
    def target(self) -> tuple[bool, ...]:
        """Results as in the target's files, which hold the reference's code at a blank."""
        pairs = zip(self.marks, (False, *self.reference), strict=False)
        return tuple(before if mark == " " else mark == "+" for mark, before in pairs)


def replayed(chance: random.Random) -> Replayed:
    solved = chance.choice([None, *range(LAST + 1)])
    reference = tuple(solved is not None and turn >= solved for turn in range(LAST + 1))
    after = LAST if solved is None else solved
    asked = "".join(chance.choice("+--- ") for _ in range(after))
    return Replayed(reference, (chance.choice("+-") + asked).ljust(LAST + 1))


def results(passed: bool) -> dict[str, Any]:
    return {"eval": {"Task/1": [{"status": "pass" if passed else "fail"}]}}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in UNUSED:
        monkeypatch.setitem(sys.modules, name, MagicMock())
    return load_module(CONVCODEWORLD.extract(tmp_path, SCRIPT) / SCRIPT, monkeypatch)


def test_replays_have_the_script_s_figures(script: ModuleType) -> None:
    chance = random.Random(5)
    for task in (replayed(chance) for _ in range(N_TASKS)):
        rows = score(request("static[f_c,f_e,f_v]", static(task.marks, LAST, task.solved_at)))
        target, reference = (
            [*map(results, task.target)],
            [*map(results, task.reference)],
        )
        files = (target, reference, "static", True)
        assert by_metric(rows, "mrr_upstream")[0] == script.get_mrr(*files), task
        assert by_metric(rows, "recall")[0] == script.get_recall(*files), task
        by_turn = by_metric(rows, "pass_at_1_upstream")
        for turn in range(1, LAST + 1):
            expected = script.pass_at_1(target[turn], reference[0])
            assert by_turn[turn + 1] == expected / 100, (task, turn)


def test_live_runs_have_the_script_s_figures(script: ModuleType) -> None:
    for solved in (None, *range(LAST + 1)):
        marks = "-" * (LAST + 1) if solved is None else "-" * solved + "+"
        rows = score(request("live[f_c,f_e,f_v]", live(marks)))
        files = [results(solved is not None and turn >= solved) for turn in range(LAST + 1)]
        assert by_metric(rows, "mrr") == {0: script.get_mrr(files, files)}, marks
        assert by_metric(rows, "recall") == {0: script.get_recall(files, files)}, marks
        for name in ("pass_at_1", "pass_at_1_upstream"):
            by_turn = by_metric(rows, name)
            assert by_turn == {
                turn + 1: script.pass_at_1(file, files[0]) / 100 for turn, file in enumerate(files)
            }, (name, marks)
