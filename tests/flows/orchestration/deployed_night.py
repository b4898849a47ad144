"""A deployed night as its operator sees it, by Prefect's API: trigger it, cancel, pause or retry
it, read what became of it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import yaml

from tests.fixtures.model_server import ModelServer
from tests.fixtures.processes import command_lines
from tests.flows.drivers import ROOT
from tests.flows.orchestration.deployment import DONE, deploy_all, prefect

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

LIMIT_S = 400
POOL = "parley"
IN_FLIGHT = 4


@dataclass(frozen=True)
class DeployedNight:
    """One run of a deployment, and the folder that its worker starts in."""

    run_id: str
    folder: Path

    @property
    def state(self) -> tuple[str, str]:
        """Type and name of its state: CANCELLED and Cancelled, say."""
        run = self._read()
        return run["state_type"], run["state_name"]

    @property
    def name(self) -> str:
        """What the UI's lists call it."""
        return self._read()["name"]

    @property
    def began(self) -> str:
        """When it first ran, in ISO 8601 and UTC."""
        return self._read()["start_time"]

    @property
    def ended(self) -> str:
        """When it ended, likewise."""
        return self._read()["end_time"]

    def _read(self) -> Mapping[str, Any]:
        return _post("GET", f"/flow_runs/{self.run_id}")

    def set_state(self, kind: str, name: str) -> None:
        """What a button of the UI sends."""
        self._set_state({"type": kind, "name": name, "message": f"{name} from the UI"})

    def pause(self) -> None:
        """What the button Pause sends: the run is to be resumed within 300 s."""
        until = (datetime.now(UTC) + timedelta(seconds=300)).isoformat()
        self._set_state(
            {
                "type": "PAUSED",
                "name": "Suspended",
                "state_details": {"pause_timeout": until, "pause_reschedule": True},
            }
        )

    def resume(self) -> None:
        """What the button Resume sends."""
        assert _post("POST", f"/flow_runs/{self.run_id}/resume")["status"] == "ACCEPT"

    def _set_state(self, state: Mapping[str, Any]) -> None:
        assert (
            _post("POST", f"/flow_runs/{self.run_id}/set_state", {"state": state, "force": True})[
                "status"
            ]
            == "ACCEPT"
        )

    def retry(self) -> None:
        """As a person types it."""
        prefect("flow-run", "retry", self.run_id, cwd=self.folder)

    def logs(self) -> str:
        """What the UI shows below its page."""
        return prefect("flow-run", "logs", self.run_id, cwd=self.folder)

    def wait_until_it_ended(self) -> str:
        """The type of the state that it ended in."""
        wait_until(lambda: self.state[0] in DONE, self.folder, f"the end of run {self.run_id}")
        return self.state[0]

    def inner_flows(self) -> list[Mapping[str, Any]]:
        """The flows that it called, of all attempts."""
        return _post(
            "POST",
            "/flow_runs/filter",
            {"flow_runs": {"parent_flow_run_id": {"any_": [self.run_id]}}},
        )

    def shown(self) -> dict[str, str]:
        """Name and state's name of each flow that it called."""
        return {run["name"]: run["state_name"] for run in self.inner_flows()}

    def tasks(self) -> list[Mapping[str, Any]]:
        """Its tasks and those of the flows that it called, of all attempts."""
        runs = [self.run_id, *(run["id"] for run in self.inner_flows())]
        return _post("POST", "/task_runs/filter", {"flow_runs": {"id": {"any_": runs}}})


def _post(method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    with _client() as client:
        # its paths are literals
        return client.request(method, path, json=body).json()  # type: ignore[arg-type]


def _client() -> "SyncPrefectClient":
    from prefect.client.orchestration import SyncPrefectClient, get_client

    client = get_client(sync_client=True)
    assert isinstance(client, SyncPrefectClient)
    return client


def deploy_unscheduled(folder: Path) -> None:
    """Deploy the project's prefect.yaml without its schedules."""
    document = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))
    for deployment in document["deployments"]:
        deployment["schedules"] = []
    (folder / "prefect.yaml").write_text(
        yaml.safe_dump(document, sort_keys=False), encoding="utf-8"
    )
    deploy_all(folder)


def trigger(
    deployment: str, folder: Path, home: Path, server: ModelServer, **more: object
) -> DeployedNight:
    """A run of that deployment, as the UI's Custom run makes it.

    Its configuration: the sample, asked of that server.

    Args:
        folder: where its worker starts.
        more: further fields of the configuration.
    """
    night = {
        "concurrency": IN_FLIGHT,
        "workers": 1,
        "models": [{"spec": f"openai:mock@{server.base_url}", "revision": "1"}],
        "benchmarks": [{"name": "codeif.static", "dataset_version": "sample"}],
        **more,
    }
    config = folder / "night.yaml"
    config.write_text(yaml.safe_dump(night), encoding="utf-8")
    parameters = {"config": str(config), "home": str(home)}
    with _client() as client:
        run = client.create_flow_run_from_deployment(
            client.read_deployment_by_name(deployment).id, parameters=parameters
        )
    return DeployedNight(str(run.id), folder)


@contextmanager
def held(server: ModelServer, answers: int) -> Iterator[None]:
    """The server gives so many answers more, then none until the block ends."""
    server.holds_after = server.answered + answers
    try:
        yield
    finally:
        server.holds_after = None


def wait_until(condition: Callable[[], bool], folder: Path, what: str) -> None:
    """Wait; where it does not happen, tell what the worker wrote."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        said = folder / "worker.log"
        assert time.monotonic() < deadline, (
            f"{what} did not come in {LIMIT_S} s: {said.read_text(errors='replace')[-3000:]}"
        )
        time.sleep(0.1)


def drivers(folder: Path) -> list[psutil.Process]:
    """The processes of flow runs, with all that descends from them, below a worker that was started
    in `folder`.
    """
    started = command_lines(psutil.Process())
    workers = [
        process
        for process, line in started.items()
        if "worker start" in " ".join(line) and process.cwd() == str(folder)
    ]
    return [process for worker in workers for process in worker.children(recursive=True)]
