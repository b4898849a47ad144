"""A deployed night is cancelled, paused, or killed with its worker: it goes on where it stood, and
nothing is paid twice.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fixtures.model_server import ModelServer, model_server
from tests.flows.drivers import ROOT, wait_until_gone
from tests.flows.orchestration.deployed_night import (
    IN_FLIGHT,
    POOL,
    DeployedNight,
    deploy_unscheduled,
    drivers,
    held,
    trigger,
    wait_until,
)
from tests.flows.orchestration.deployment import prefect, worker
from tests.flows.parley_command import ask
from tests.prefect_servers import prefect_server

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]
SETTINGS = [{"name": "codeif.static", "dataset_version": "sample", "seed": seed} for seed in (0, 7)]
"""Two runs, which go side by side."""
N_TURNS = 2 * 38
"""Answers in the sample's eight dialogues, in both."""
ANSWER_S = 3.0
"""Of one answer in a night that is paused: all of them take a minute."""
END_LIMIT_S = 15.0
"""From the request to end a night, until its processes are gone."""
BEFORE = 12
"""Answers that are given before a night is ended."""


@dataclass(frozen=True)
class Deployment:
    folder: Path

    def trigger(self, name: str, home: Path, server: ModelServer) -> DeployedNight:
        return trigger(f"nightly/{name}", self.folder, home, server, benchmarks=SETTINGS)

    def wait_for_answers(self, server: ModelServer) -> None:
        wait_until(lambda: server.answered >= BEFORE, self.folder, f"answer {BEFORE}")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The project's deployments on a server of their own."""
    folder = tmp_path_factory.mktemp("deployment")
    with prefect_server(folder / "home"):
        deploy_unscheduled(folder)
        prefect(
            "automation",
            "create",
            "--from-file",
            str(ROOT / "flows/orchestration/automations.yaml"),
            cwd=folder,
        )
        yield Deployment(folder)


def conversing(night: DeployedNight) -> list[str]:
    """The type of the state of each stage in which a run's dialogues are played."""
    return [
        run["state_type"]
        for run in [*night.inner_flows(), *night.tasks()]
        if run["name"].startswith("converse")
    ]


def assert_whole(home: Path, server: ModelServer) -> None:
    """Every answer is there, and no more than what was in flight was asked for twice."""
    assert ask(home, "SELECT count(*) n FROM turns WHERE role = 'assistant'") == [{"n": N_TURNS}]
    assert N_TURNS <= sum(server.prompts.values()) <= N_TURNS + IN_FLIGHT


def test_a_cancelled_night_ends_with_all_that_it_began_and_the_next_goes_on(
    deployment: Deployment, home: Path
) -> None:
    with model_server() as server, worker(POOL, deployment.folder):
        with held(server, BEFORE):
            night = deployment.trigger("nightly", home, server)
            deployment.wait_for_answers(server)
            wait_until(
                lambda: len(conversing(night)) == len(SETTINGS),
                deployment.folder,
                "the second run's dialogues",
            )
            following = deployment.trigger("backfill", home, server)
            processes = drivers(deployment.folder)
            asked = time.monotonic()
            night.set_state("CANCELLING", "Cancelling")
            assert night.wait_until_it_ended() == "CANCELLED"
            inside = [*night.inner_flows(), *night.tasks()]
            assert processes
            assert wait_until_gone(processes, 0) == []
            assert time.monotonic() - asked < END_LIMIT_S
        assert {run["state_type"] for run in inside} == {"COMPLETED", "CANCELLED"}
        assert conversing(night) == ["CANCELLED"] * len(SETTINGS)
        assert following.wait_until_it_ended() == "COMPLETED"
        assert_whole(home, server)


def test_a_paused_night_asks_no_more_and_goes_on_where_it_stood_when_resumed(
    deployment: Deployment, home: Path
) -> None:
    with model_server(latency_s=ANSWER_S) as server, worker(POOL, deployment.folder):
        night = deployment.trigger("nightly", home, server)
        deployment.wait_for_answers(server)
        wait_until(
            lambda: len(conversing(night)) == len(SETTINGS),
            deployment.folder,
            "the second run's dialogues",
        )
        processes = drivers(deployment.folder)
        night.pause()
        assert processes
        assert wait_until_gone(processes, END_LIMIT_S) == []
        assert night.state == ("PAUSED", "Suspended")
        inside = [*night.inner_flows(), *night.tasks()]
        assert {(run["state_type"], run["state_name"]) for run in inside} == {
            ("COMPLETED", "Completed"),
            ("CANCELLED", "Suspended"),
        }
        assert conversing(night) == ["CANCELLED"] * len(SETTINGS)
        assert sum(server.prompts.values()) < N_TURNS, "it was paused in the middle"
        server.latency_s = 0.0
        night.resume()
        assert night.wait_until_it_ended() == "COMPLETED"
        assert {run["state_type"] for run in night.inner_flows()} == {"COMPLETED"}
        assert_whole(home, server)


def test_a_night_killed_with_its_worker_is_finished_by_another_after_retry(
    deployment: Deployment, home: Path
) -> None:
    with model_server() as server:
        with held(server, BEFORE), worker(POOL, deployment.folder):
            night = deployment.trigger("nightly", home, server)
            deployment.wait_for_answers(server)
        assert night.state == ("RUNNING", "Running")
        assert night.wait_until_it_ended() == "CRASHED", "the automation misses its heartbeats"
        with worker(POOL, deployment.folder):
            night.retry()
            wait_until(lambda: night.state[0] == "RUNNING", deployment.folder, "the second attempt")
            following = deployment.trigger("backfill", home, server)
            assert night.wait_until_it_ended() == "COMPLETED"
            assert following.wait_until_it_ended() == "COMPLETED"
        assert following.began >= night.ended, "two nights never overlap"
        assert_whole(home, server)
