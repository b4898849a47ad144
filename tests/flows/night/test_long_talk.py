"""A long conversation before many dialogues: kept once, sent whole, in no episode; killed in the
middle, nothing paid twice.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.episode import Episode
from tasks.storage.parquet_store import Lake
from tests.crash.night import write_plugin
from tests.fixtures.model_server import CONTEXT_LENGTH, ModelServer, Reply, digest, model_server
from tests.flows.drivers import ROOT
from tests.flows.parley_command import parley_process, started
from tests.tasks.benchmarks.long_talk import N_CONTEXT_ROUNDS, N_DIALOGS
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Its context is too short for the dialogue that begins after the longest part of the
    conversation.
    """
    longest = [
        *(
            m
            for n in range(1, N_DIALOGS + 1)
            for m in round_of(f"On day {n} I saw bird {n}.", f"Bird {n}, noted.")
        ),
        *round_of("Let me ask you something.", "Go ahead."),
        {"role": "user", "content": f"Which bird, in question {N_DIALOGS - 1}?"},
    ]
    with model_server(max_seconds=300) as found:
        found.answer = lambda messages: f"It was {messages[-5]['content'].split('saw ')[1]}"
        found.choose = lambda name, n: (
            CONTEXT_LENGTH if name.startswith(digest(longest)) else Reply()
        )
        yield found


def round_of(asked: str, said: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]


def test_it_is_played_killed_and_finished(
    served_home: Path, server: ModelServer, tmp_path: Path
) -> None:
    write_plugin(tmp_path / "plugin", "long_talk", "tests.tasks.benchmarks.long_talk:BENCHMARK")
    environ = {"PYTHONPATH": os.pathsep.join((str(tmp_path / "plugin"), str(ROOT)))}
    model = f"openai:mock@{server.base_url}"
    typed = (
        "run",
        "long_talk.recall",
        "--dataset-version",
        "sample",
        "--model",
        model,
        "--revision",
        "1",
        "--workers",
        "1",
    )
    estimate = parley_process(served_home, *typed, "--dry-run", "--json", environ=environ).json()
    assert (estimate["calls"], estimate["owed"], len(server.bodies)) == (N_DIALOGS, N_DIALOGS, 0)

    server.holds_after = 3
    with started(served_home, *typed, "--concurrency", "2", "--json", environ=environ) as driver:
        deadline = time.monotonic() + 120
        while (
            server.answered < server.holds_after
            and driver.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        driver.kill()
    in_flight, server.holds_after = server.in_flight, None
    time.sleep(0.5)
    done = parley_process(served_home, *typed, "--json", environ=environ)
    assert done.code == 0, done.err
    assert sum(server.prompts.values()) <= N_DIALOGS + in_flight
    assert len(server.prompts) == N_DIALOGS
    assert {len(body["messages"]) for body in server.bodies} == {
        2 * n + 3 for n in range(1, N_DIALOGS + 1)
    }

    counts = "select mean, n, n_unscored, n_not_applicable from leaderboard"
    assert query(served_home, counts)[1] == [(1.0, N_DIALOGS - 1, 0, 1)]
    reasons = "select unscored_reason, count(*) from scores where value is null group by all"
    assert query(served_home, reasons)[1] == [("context_length", 1)]
    assert query(served_home, "select len(turns) from contexts")[1] == [(2 * N_CONTEXT_ROUNDS,)]
    assert query(served_home, "select calls, n_turns, n_unknown_tokens from costs")[1] == [
        (N_DIALOGS, N_DIALOGS - 1, 0)
    ]
    episodes = Lake(served_home / "lake").read("episodes", Episode)
    assert {len(episode.steps) for episode in episodes} == {4}
    shown = parley_process(served_home, "show", episodes[0].episode_id, environ=environ).out
    assert "I saw bird 1." in shown
    assert "Go ahead." in shown
