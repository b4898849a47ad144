"""Runs of a night side by side: a silent endpoint holds up only its own runs, and a stop costs what
was in flight.
"""

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures.model_server import ModelServer, model_server
from tests.flows.drivers import family, living
from tests.flows.night.test_resume import N_TURNS, wait_until
from tests.flows.parley_command import ask, parley, started

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
IN_FLIGHT = 4
SEEDS = (0, 7)
"""Two runs of each model."""


def write_night(folder: Path, *servers: ModelServer, samples: int = 1, **more: Any) -> Path:
    """A night of one model on each server, in two settings that differ by their seeds."""
    config: dict[str, Any] = {
        "workers": 1,
        "concurrency": IN_FLIGHT,
        "models": [
            {"spec": f"openai:mock@{server.base_url}", "revision": str(n)}
            for n, server in enumerate(servers)
        ],
        "benchmarks": [
            {"name": "codeif.static", "dataset_version": "sample", "seed": seed, "samples": samples}
            for seed in SEEDS
        ],
    }
    path = folder / "night.yaml"
    path.write_text(yaml.safe_dump(config | more))
    return path


def finished_runs(home: Path) -> int:
    """Runs of which the lake holds scores: all of their stages are over, or nearly."""
    return len({part.parent for part in (home / "lake" / "scores").rglob("part-*.parquet")})


def released_when(
    condition: Callable[[], bool], server: ModelServer, seen: list[bool], limit_s: float = 180.0
) -> threading.Thread:
    """Lets a held server go on when that is so, or after three minutes; `seen` says which."""

    def watch() -> None:
        deadline = time.monotonic() + limit_s
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.05)
        seen.append(condition())
        server.holds_after = None

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def test_a_silent_endpoint_holds_up_only_its_own_runs_and_reports_keep_their_order(
    served_home: Path, tmp_path: Path
) -> None:
    with model_server(holds_after=1) as silent, model_server() as other:
        seen: list[bool] = []
        watcher = released_when(
            lambda: other.answered == 2 * N_TURNS and finished_runs(served_home) == 2, silent, seen
        )
        done = parley(
            served_home, "nightly", "--config", write_night(tmp_path, silent, other), "--json"
        )
        watcher.join()
        assert done.code == 0, done.err
        assert seen == [True], "runs on the endpoint that answers waited for the one that does not"
        lines = [json.loads(line) for line in done.out.splitlines()]
        assert [line["model"] for line in lines] == ["openai:mock", "openai:mock"] * 2
        assert [
            (line["episodes"], line["owed"], line["n_new"], line["published"]) for line in lines
        ] == [(8, 0, 8, True)] * 4
        assert max(silent.max_in_flight, other.max_in_flight) <= IN_FLIGHT, (
            "two runs on one endpoint share its places"
        )
        assert [sum(server.prompts.values()) for server in (silent, other)] == [2 * N_TURNS] * 2
    revisions = ask(served_home, "SELECT revision, count(*) n FROM runs GROUP BY ALL ORDER BY ALL")
    assert revisions == [{"revision": "0", "n": 2}, {"revision": "1", "n": 2}]
    told = parley(served_home, "report", "--json").json()
    assert [
        {"stage", "converse", "execute", "score", "keep"} - run["seconds"].keys()
        for run in told["runs"]
    ] == [set()] * 4


def test_an_endpoint_that_is_gone_fails_its_own_runs_alone(
    served_home: Path, tmp_path: Path
) -> None:
    with model_server() as there:
        with model_server() as gone:
            config = write_night(tmp_path, gone, there)
        done = parley(served_home, "nightly", "--config", config, "--json")
    assert done.code == 1
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["status"] for line in lines] == ["failed", "finished", "failed", "finished"]
    lost = [line for line in lines if line["status"] == "failed"]
    told = parley(served_home, "report", "--json").json()
    assert [(run["run_id"], run["reason"]) for run in told["failed"]] == [
        (line["run_id"], line["reason"]) for line in lost
    ]
    assert "publish" in told["seconds"]
    listed = {
        run["run_id"]: run["withheld_reason"]
        for run in parley(served_home, "list", "runs", "--json").json()
    }
    assert [listed[line["run_id"]] for line in lost] == [
        f"not started: {line['reason']}" for line in lost
    ]


def test_a_concurrency_smaller_than_the_number_of_workers_is_kept_by_all_runs_together(
    served_home: Path, tmp_path: Path
) -> None:
    with model_server(latency_s=0.01) as server:
        config = write_night(tmp_path, server, samples=3, concurrency=1, workers=2)
        done = parley(served_home, "nightly", "--config", config, "--json")
        assert (done.code, server.max_in_flight) == (0, 1), done.err


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_stopped_night_goes_on_and_pays_only_for_what_was_in_flight(
    served_home: Path, tmp_path: Path, ending: signal.Signals
) -> None:
    with model_server(holds_after=12) as one, model_server(holds_after=30) as other:
        servers, config = (one, other), write_night(tmp_path, one, other)
        with started(served_home, "nightly", "--config", config) as process:
            wait_until(
                lambda: one.answered >= 12 and other.answered >= 30,
                180,
                "the last answers before the stop",
            )
            relatives, stopped = family(process), time.monotonic()
            process.send_signal(ending)
            _, said = process.communicate(timeout=60)
            assert time.monotonic() - stopped < 10, said
        assert process.returncode == (143 if ending is signal.SIGTERM else -ending), said
        assert "Traceback" not in said, said
        wait_until(
            lambda: not living(relatives), 60, "the end of every process of the stopped night"
        )
        for server in servers:
            server.holds_after = None
        lines = [
            json.loads(line)
            for line in parley(
                served_home, "nightly", "--config", config, "--json"
            ).out.splitlines()
        ]
        assert [(line["episodes"], line["owed"]) for line in lines] == [(8, 0)] * 4
        assert {line["n_new"] + line["n_resumed"] + line["n_reused"] for line in lines} == {8}
        for server in servers:
            assert 2 * N_TURNS <= sum(server.prompts.values()) <= 2 * N_TURNS + IN_FLIGHT
    assert ask(served_home, "SELECT count(*) n FROM turns WHERE role = 'assistant'") == [
        {"n": 4 * N_TURNS}
    ]
