"""`parley run --batch` and `--judge-batch`: killed while a batch is under way, a run pays for each
answer once, and half.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.crash.night import write_plugin
from tests.fixtures.batch_server import BatchServer, batch_server
from tests.fixtures.replies import Reply
from tests.flows.drivers import ROOT
from tests.flows.parley_command import ask, parley_process, started
from tests.tasks.benchmarks.judged import CLEAR, GOOD, N_DIALOGS, N_ROUNDS

pytestmark = pytest.mark.slow


USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "completion_tokens_details": {"reasoning_tokens": 3},
}


def wait_for_batches(server: BatchServer, n: int, command: "subprocess.Popen[str]") -> None:
    """Wait until so many batches were made while the command runs."""
    deadline_s = time.monotonic() + 300
    while len(server.batches) < n:
        assert command.poll() is None
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_a_killed_run_goes_on_with_its_batch(served_home: Path) -> None:
    with batch_server(holds_from=0) as server:
        spec = (
            "--model",
            f"openai:mock@{server.base_url}",
            "--revision",
            "r1",
            "--price",
            "2",
            "8",
            "--batch",
        )
        command = (
            "run",
            "convcode.live[none]",
            "--dataset-version",
            "sample",
            "--limit",
            "3",
            "--workers",
            "1",
            *spec,
        )
        with started(served_home, *command, "--sandbox", "none") as killed:
            wait_for_batches(server, 1, killed)
            time.sleep(1)
            killed.send_signal(signal.SIGKILL)
        server.holds_from = None
        done = parley_process(served_home, *command, "--sandbox", "none", "--json").json()
        assert done["published"], done
        assert (len(server.batches), len(server.paid), server.n_chats) == (1, 3, 0)
    (cost,) = ask(
        served_home, "SELECT input_tokens, output_tokens, usd FROM costs WHERE role = 'subject'"
    )
    assert cost["usd"] == pytest.approx(
        (cost["input_tokens"] * 2 + cost["output_tokens"] * 8) / 1e6 / 2
    )


def test_judgements_in_batches_survive_a_kill_and_show_how_far_they_are(
    served_home: Path, tmp_path: Path
) -> None:
    write_plugin(tmp_path / "plugin", "judged", "tests.tasks.benchmarks.judged:BENCHMARK")
    environ = {"PYTHONPATH": os.pathsep.join((str(tmp_path / "plugin"), str(ROOT)))}
    n_distinct = (N_DIALOGS - 1) * N_ROUNDS
    with batch_server(holds_from=1) as server:  # the first one asks how the judge drifts
        server.answer = lambda _messages: Reply(content=GOOD, body=(("usage", USAGE),))
        run = (
            "run",
            "judged.talk",
            "--dataset-version",
            "sample",
            "--model",
            "control:gold",
            "--workers",
            "1",
        )
        judge = (
            "--judge",
            f"openai:mock@{server.base_url}",
            "--judge-revision",
            "1",
            "--judge-price",
            "2",
            "8",
            "--judge-batch",
        )
        with started(served_home, *run, *judge, environ=environ) as killed:
            wait_for_batches(server, 2, killed)
            time.sleep(1)
            killed.send_signal(signal.SIGKILL)
        with started(served_home, *run, *judge, environ=environ) as resumed:
            assert resumed.stderr is not None
            line = next(line for line in resumed.stderr if " batch (" in line)
            server.holds_from = None
            resumed.communicate(timeout=300)
        assert resumed.returncode == 0
        assert f": 0 of {n_distinct} requests answered" in line
        assert (len(server.batches), len(server.paid), server.n_chats) == (
            2,
            n_distinct + len(CLEAR.drift),
            0,
        )
    (cost,) = ask(served_home, "SELECT * FROM costs WHERE role = 'judge'")
    assert (cost["calls"], cost["reasoning_tokens"]) == (n_distinct, 3 * n_distinct)
    assert cost["usd"] == pytest.approx(n_distinct * (10 * 2 + 5 * 8) / 1e6 / 2)
