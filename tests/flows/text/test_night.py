"""What `parley report` prints of a night."""

import json
from pathlib import Path

import pytest

from flows.night.reporting.run_record import record_night
from flows.text.night import show_night
from schemas.night.work import StageTime
from tasks.planning.reporting.report import RunReport
from tasks.storage.home import Home
from tests.flows.text.test_work import work
from tests.tasks.planning.test_why_rerun import record, with_
from tests.warehouse.small_run import write_part

NIGHT = "20261124T020000-0001"


def took(run_id: str, stage: str, second: int, seconds: float) -> StageTime:
    at = f"2026-11-24T02:00:{second:02}.000+00:00"
    return StageTime(
        night_id=NIGHT, run_id=run_id, title="", stage=stage, started_at=at, seconds=seconds
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home of one night: two runs of four seconds side by side, one that could not be planned."""
    home = Home.at(str(tmp_path / "home"))
    lost = RunReport(
        run_id="", title="a · b", setting="a", model="b", status="failed", reason="no such\x1b data"
    )
    times = [
        took("", "start", 0, 2.0),
        took("r1", "converse", 2, 4.0),
        took("r2", "converse", 3, 4.0),
    ]
    record_night(home, NIGHT, "2026-11-24T02:00:01.000+00:00", [lost], times=times)
    return home


def test_the_time_that_went_by_is_said_before_stages_that_overlap(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    show_night(home, None, json_output=False)
    lines = capsys.readouterr().out.splitlines()
    first, last = "2026-11-24T02:00:00.000+00:00", "2026-11-24T02:00:07.000+00:00"
    assert lines[0] == f"Night {NIGHT}, {first} to {last}"
    assert (
        lines[1]
        == "took 7.0 s, from its first stage to its last; stages of concurrent runs overlap"
    )
    show_night(home, None, json_output=True)
    assert json.loads(capsys.readouterr().out)["wall_seconds"] == 7.0


def test_a_run_that_could_not_be_planned_is_told_with_its_reason(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    show_night(home, None, json_output=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == ["a · b: failed (could not be planned)", "  failed: no such data"]
    show_night(home, None, json_output=True)
    (lost,) = json.loads(capsys.readouterr().out)["failed"]
    assert (lost["reason"], lost["seconds"]) == ("no such\x1b data", {})


def test_a_night_without_an_end_may_still_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = record(with_(seed=0), work=work())
    write_part(tmp_path, "runs", [run], "run", benchmark="b", model="m", run_id=run.run_id)
    show_night(Home(tmp_path), run.night_id, json_output=False)
    assert capsys.readouterr().out.splitlines()[0].endswith("to ... (running or interrupted)")
