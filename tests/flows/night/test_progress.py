"""Progress as lines: what happened is shown, even if nothing happens after it for long."""

import threading
import time

import pytest

from flows.night.reporting.progress import Board, LineBoard

FEW = {
    "stage": "converse",
    "episodes": 11,
    "faults": 0,
    "turns": 24,
    "output_tokens": 0,
    "programs": 1,
}
NOTHING = {**FEW, "episodes": 0, "turns": 0, "programs": 0}


def wait_for(capsys: pytest.CaptureFixture[str], part: str) -> str:
    """What was written until this is, or for half a minute."""
    said, deadline = "", time.monotonic() + 30
    while part not in said and time.monotonic() < deadline:
        said += capsys.readouterr().err
        time.sleep(0.01)
    return said


def test_what_happened_soon_after_a_line_is_shown_before_anything_else_happens(
    capsys: pytest.CaptureFixture[str],
) -> None:
    board = LineBoard(every_s=0.2)
    with board.live():
        board.stage("live[f_c]", "converse", total=12)
        board.report(FEW)
        said = wait_for(capsys, "11/12")
    assert [line.rpartition(" · ")[0] for line in said.splitlines()] == [
        "live[f_c]  converse · 0/12 episodes",
        "live[f_c]  converse · 11/12 episodes · 24 turns · 1 programs",
    ]


def test_a_stage_in_which_nothing_happens_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    board = LineBoard(every_s=0.02)
    with board.live():
        board.stage("live[f_c]", "converse", total=12)
        time.sleep(0.1)
        board.report(NOTHING)
        time.sleep(0.1)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_images_that_come_are_counted_and_so_are_their_bytes() -> None:
    board = Board()
    board.stage("m", "converse", total=8)
    board.report({**NOTHING, "images": 0, "pulls": 2, "image_mb": 310})
    assert (
        board.describe() == "m  converse · 0/8 episodes · images: 0 pulled, 2 in progress, 310 MB"
    )
    board.report({**NOTHING, "images": 2, "pulls": -2, "image_mb": 90})
    assert board.describe() == "m  converse · 0/8 episodes · images: 2 pulled, 400 MB"


def test_tokens_have_their_rate_and_a_stage_says_how_long_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    board = Board()
    board.stage("m", "converse", total=8)
    board.expect(turns=40)
    assert board.time_left() == ""
    now_s += 20
    board.report({**FEW, "episodes": 0, "turns": 10, "output_tokens": 500})
    now_s += 5  # nothing was reported since: the rate stays, the time goes by
    assert "10 turns · 500 tokens, 25 a second" in board.describe()
    assert board.time_left() == ", about 55 s left"
    board.report({**NOTHING, "episodes": 6})  # a resumed run: most of its turns stood already
    assert board.time_left() == ", about 8 s left"
    board.done(8)
    assert board.time_left() == ""
    board.report({**NOTHING, "episodes": 2})  # late: `done` has counted them
    assert "8/8 episodes" in board.describe()


def test_each_thread_has_a_line_and_what_workers_report_goes_to_its_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    board, both_there, seen = LineBoard(), threading.Barrier(2), {}

    def go(run_id: str, n_episodes: int) -> None:
        with board.following(run_id):
            board.stage(f"run {run_id}", "converse", total=9)
            both_there.wait(20)
            board.report({**FEW, "run_id": run_id, "episodes": n_episodes})
            both_there.wait(20)
            seen[run_id] = board.describe()

    threads = [threading.Thread(target=go, args=(run_id, n)) for run_id, n in (("a", 1), ("b", 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert {name: said.split(" · ")[1] for name, said in seen.items()} == {
        "a": "1/9 episodes",
        "b": "2/9 episodes",
    }
    assert len(capsys.readouterr().err.splitlines()) == 2
    board.stage("night", "publish")
    board.end()
    told = {(time.run_id, time.title, time.stage): time.seconds for time in board.times("tonight")}
    assert told.keys() == {
        ("a", "run a", "converse"),
        ("b", "run b", "converse"),
        ("", "night", "publish"),
    }
    assert all(0 <= seconds < 60 for seconds in told.values())


def test_a_stage_that_was_interrupted_is_shown_as_before() -> None:
    board = Board()
    board.stage("live[f_c]", "judge", total=7, unit="judgements")
    board.show_state(lambda: "a batch")
    with board.interrupted("wait for devices"):
        assert board.describe() == "live[f_c]  wait for devices"
    assert board.describe() == "live[f_c]  judge · 0/7 judgements · a batch"
    assert [row.stage for row in board.times("night")] == ["judge", "wait for devices"]
