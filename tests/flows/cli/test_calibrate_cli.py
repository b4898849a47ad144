"""`parley doctor --calibrate`: what is measured, what is kept, and what ends it with which exit
code.
"""

import json
from pathlib import Path

import pytest

from flows.cli.doctor import calibrate, calibrated_text, state_text
from schemas.errors import SourceUnreadable, UnknownName
from tasks.storage.home import Home
from tests.flows.parley_command import parley

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]

TASK = {
    "prompt": "def f():\n",
    "entry_point": "f",
    "test": "def check(c):\n    assert c() == 1, 'not one'\n",
}


def written(folder: Path, solutions: dict[str, str]) -> Path:
    folder.mkdir()
    rows = [
        {"task_id": name, "canonical_solution": f"    return {value}\n", **TASK}
        for name, value in solutions.items()
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_references_that_pass_are_kept_and_doctor_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert "`parley doctor --calibrate`" in state_text(home, "bubblewrap")
    done = calibrate(home, "bubblewrap", written(tmp_path / "data", {"a": "1", "b": "2 - 1"}))
    assert "2 of 2 reference solutions passed" in calibrated_text(done)
    (kept,) = json.loads((home.path / "calibration.json").read_text())
    assert (kept["factor"], kept["n_passed"], kept["sandbox"]) == (1, 2, "bubblewrap")
    assert state_text(home, "bubblewrap").startswith("time limits are unchanged on this machine")


def test_a_reference_that_fails_is_named_and_nothing_is_kept(home: Path, tmp_path: Path) -> None:
    data = written(tmp_path / "data", {"a": "1", "bad": "2", "MBPP/56": "3"})
    done = parley(home, "doctor", "--calibrate", "--data", data, "--sandbox", "bubblewrap")
    assert done.code == 1
    assert (
        "1 of 3 reference solutions passed; 1 cannot pass because their data have known faults"
        in done.out
    )
    assert "failed: bad (failed: AssertionError: not one)" in done.out
    assert not (home / "calibration.json").exists()


def test_what_cannot_be_meant_is_refused(home: Path, tmp_path: Path) -> None:
    done = parley(home, "doctor", "--sandbox", "bubblewrap")
    assert done.code == 2
    assert "--data and --sandbox have no effect without --calibrate" in done.err
    with pytest.raises(SourceUnreadable, match="no reference solutions found"):
        calibrate(Home(home), "bubblewrap", tmp_path)
    with pytest.raises(UnknownName, match="bubblewarp"):
        calibrate(Home(home), "bubblewarp", None)
