"""A withheld run's reason fills three lines at most, on a terminal and in a pipe; JSON has the
whole text.
"""

import fcntl
import os
import struct
import termios
from pathlib import Path

import pytest

from schemas.lake.records import RunRecord
from schemas.outside.display import in_three_lines
from tasks.storage.parquet_store import Lake
from tests.flows.parley_command import parley
from tests.warehouse.small_lake import SmallLake
from warehouse.publication.publish import publish

REASON = "check test_verdicts failed: " + "P1 turn 3 has no verdict; " * 60


def test_a_pipe_has_lines_of_eighty_characters_and_a_terminal_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert in_three_lines("too many\ninfra faults") == "too many infra faults"
    assert in_three_lines("x" * 240) == "x" * 240
    assert in_three_lines("x" * 241) == "x" * 219 + "… (full text: --json)"
    cause = (
        "The last fault: model 'mock' at http://127.0.0.1:1/v1: HTTP 402: no credit left: add "
        "some, or use another key"
    )
    long = in_three_lines("quality check " * 20 + cause)
    assert (len(long), long.endswith(cause), "… (full text: --json) The" in long) == (
        240,
        True,
        True,
    )
    assert in_three_lines(f"{'x' * 300} The last fault: {'y' * 300}").endswith("yy…")
    master, slave = os.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        with os.fdopen(slave, "w") as terminal:
            monkeypatch.setattr("sys.stderr", terminal)
            assert len(in_three_lines(REASON)) == 120
            monkeypatch.undo()
    finally:
        os.close(master)


@pytest.mark.slow
def test_commands_print_a_long_reason_in_three_lines_and_json_the_whole(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "home").write_all()
    run = lake.gamma
    [record] = Lake(lake.home / "lake").read("runs", RunRecord, **run.keys)
    run.write("runs", [record.model_copy(update={"withheld_reason": REASON})], "run")
    publish(lake.home)
    listed = parley(lake.home, "list", "runs")
    shown = listed.out[listed.out.index(f"{run.run_id[:12]}  withheld: ") :].splitlines()[0]
    assert len(shown) == 240
    [whole] = [
        one
        for one in parley(lake.home, "list", "runs", "--json").json()
        if one["run_id"] == run.run_id
    ]
    assert whole["withheld_reason"] == REASON
    released = parley(lake.home, "release", run.run_id, "--because", "one problem only")
    assert max(map(len, released.out.splitlines())) == 240
    again = parley(
        lake.home, "release", run.run_id, "--because", "one problem only", "--json"
    ).json()
    assert again["withheld_reason"] == REASON
