"""Progress on a terminal: a line a run with bar, rates, cost and time left, also as a real terminal
gets it.
"""

import os
import pty
import re
import subprocess
import sys
import time

import pytest

from flows.night.reporting.live_lines import live_line
from flows.night.reporting.progress import Line
from tests.flows.drivers import ROOT

DONE = {"stage": "converse", "faults": 0, "programs": 0}


def half_done(monkeypatch: pytest.MonkeyPatch) -> Line:
    """A line of a run that half of its time has gone by of."""
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    line = Line("codeif.static · openai:some-coder-7b-instruct", "converse", total=164)
    now_s += 50
    line.prices = ((2.0, 8.0), (1.0, 4.0))
    tokens = {"input_tokens": 500_000, "output_tokens": 100_000}
    simulated = {"simulator_input_tokens": 100_000, "simulator_output_tokens": 50_000}
    line.add({**DONE, "episodes": 82, "turns": 600, **tokens, **simulated})
    return line


def test_a_wide_line_has_bar_rates_cost_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    line = half_done(monkeypatch)
    assert line.usd() == pytest.approx((400_000 * 2 + 50_000 * 8 + 100_000 * 1 + 50_000 * 4) / 1e6)
    shown = live_line(line, 140).plain[2:]
    bar = "━" * 16
    title = "codeif.static · openai:some-coder-7b-instruct  converse"
    assert shown == f"{title}  {bar}  82/164  $1.50  12 turns/s  2000 tok/s  50 s left"
    assert [
        (span.end - span.start, str(span.style))
        for span in live_line(line, 140).spans
        if "green" in str(span.style)
    ] == [(8, "green")]


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_a_narrow_line_fits_and_says_most_of_it(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    line = half_done(monkeypatch)
    shown = live_line(line, width).plain
    assert len(shown) <= width
    assert "82/164" in shown
    assert shown.endswith("50 s left")
    if width >= 80:
        assert all(part in shown for part in ("━" * 8, "$1.50", "12 turns/s", "2000 tok/s"))
    line.noted = "waits for the endpoint"
    assert len(live_line(line, width).plain) <= width


def test_a_cost_is_shown_only_where_all_prices_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    line = half_done(monkeypatch)
    for prices in ((), ((2.0, 8.0), None)):
        line.prices = prices
        assert line.usd() is None
        assert "$" not in live_line(line, 140).plain


SCRIPT = """
import time
from flows.night.reporting.live_lines import board_for_terminal
board = board_for_terminal()
with board.live():
    board.stage("codeif.static · m", "converse", total=4)
    for _ in range(4):
        time.sleep(0.6)
        board.report({"stage": "converse", "episodes": 1, "faults": 0, "turns": 3, "output_tokens": 50, "programs": 0})
print("the end")
"""


@pytest.mark.slow
def test_a_terminal_gets_a_moving_line_and_a_pipe_gets_plain_ones() -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "TERM": "xterm-256color"}
    command = [sys.executable, "-P", "-c", SCRIPT]
    piped = subprocess.run(
        command, capture_output=True, text=True, env=environ, timeout=120, check=True
    )
    assert "\x1b" not in piped.stderr + piped.stdout
    assert piped.stderr.startswith("codeif.static · m  converse · 0/4 episodes")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)
    shown = _all_of(ours)
    assert process.wait(120) == 0
    assert "\x1b[32m━" in shown  # a green bar
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    counts = [int(n) for n in re.findall(r"━  (\d)/4", text)]
    assert counts == sorted(counts)
    assert len(set(counts)) >= 3
    assert re.search(r"[\d.]+ turns/s  [\d.]+ tok/s  [\d.]+ s(?: left)?", text)
    end = " ".join(text.rpartition("✓ ")[2].split())
    assert end.startswith("codeif.static · m converse · 4/4 episodes · 12 turns · 200 tokens")
    assert end.endswith("the end")


def _all_of(terminal: int) -> str:
    """What is written on a terminal until its last program closes it."""
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()
