"""A scheduler and two workers on machines of their own, which share a network and an object store,
and no folder.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.crash.night import TURNS, write_plugin
from tests.crash.six_turns import N_DIALOGS
from tests.fixtures.machines import MAX_SECONDS, Machine, machines, require_machines
from tests.flows.parley_command import ROOT, ask, command

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
LIMIT_S = 500
BUCKET, STORE_PORT, DASK_PORT, MODEL_PORT = "nights", 5000, 8786, 8000
LATENCY_S, CONCURRENCY, N_WORKERS = 2.0, 32, 2
_AS_OWNER = (
    "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, "
    "Signature=0"
)
"""The server looks at who asks, not at the signature."""
SHIPPED = 3 * CONCURRENCY
"""Answers in closed segments before the kill."""
KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass
class Cluster:
    hub: Machine
    workers: list[Machine]
    environ: dict[str, str]
    url: str = f"s3://{BUCKET}/parley"

    @property
    def scheduler(self) -> str:
        return f"tcp://{self.hub.address}:{DASK_PORT}"

    @property
    def model(self) -> str:
        return f"http://{self.hub.address}:{MODEL_PORT}/v1"

    @property
    def store(self) -> str:
        return f"http://{self.hub.address}:{STORE_PORT}"

    def shipped(self) -> int:
        """Answers in the closed segments of the journal."""
        listed = self.hub.ask(f"{self.store}/{BUCKET}?list-type=2&prefix=parley/journal/")
        segments = [
            self.hub.ask(f"{self.store}/{BUCKET}/{key}", Authorization=_AS_OWNER)
            for key in re.findall(r"<Key>([^<]+)</Key>", listed)
        ]
        rows = [json.loads(line) for segment in segments for line in segment.splitlines()]
        return sum(row.get("step", {}).get("role") == "assistant" for row in rows)

    def requests(self) -> dict[str, Any]:
        """What the model server counts."""
        return json.loads(self.hub.ask(self.model.removesuffix("/v1") + "/stats"))

    def dask_worker(self, machine: Machine) -> Any:
        options = (
            "--no-nanny",
            "--nthreads",
            "64",
            "--no-dashboard",
            "--local-directory",
            str(machine.folder / "dask"),
        )
        return _start(
            machine,
            self,
            "worker.txt",
            "-m",
            "distributed.cli.dask_worker",
            self.scheduler,
            *options,
        )


def _start(machine: Machine, cluster: Cluster, output: str, *arguments: str) -> Any:
    if not (machine.folder / "plugin").exists():
        write_plugin(machine.folder / "plugin")
    path = os.pathsep.join(map(str, (machine.folder / "plugin", ROOT)))
    own = {
        "PARLEY_HOME": str(machine.folder / "home"),
        "TMPDIR": str(machine.folder),
        "PYTHONPATH": path,
    }
    return machine.start(
        sys.executable, *arguments, environ={**cluster.environ, **own}, output=output
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    require_machines()
    for package in ("s3fs", "moto", "flask_cors"):
        if find_spec(package) is None:
            pytest.skip(
                f"the package {package} is not installed: pip install 's3fs' 'moto' flask "
                "flask-cors"
            )
    with machines(tmp_path, ["hub", "one", "two"]) as (hub, *workers):
        made = Cluster(hub, workers, dict(KEYS))
        store = made.environ["AWS_ENDPOINT_URL"] = made.store
        _start(
            hub, made, "store.txt", "-m", "moto.server", "-H", hub.address, "-p", str(STORE_PORT)
        )
        model = (
            "--host",
            hub.address,
            "--port",
            str(MODEL_PORT),
            "--latency-ms",
            str(int(LATENCY_S * 1000)),
        )
        _start(
            hub,
            made,
            "model.txt",
            "-m",
            "tests.fixtures.model_server",
            *model,
            "--max-seconds",
            str(MAX_SECONDS),
        )
        at = ("--host", hub.address, "--port", str(DASK_PORT), "--no-dashboard")
        _start(hub, made, "scheduler.txt", "-m", "distributed.cli.dask_scheduler", *at)
        _until(
            lambda: _answers(hub, store) and _answers(hub, f"{made.model}/models"),
            "a server did not start",
        )
        hub.ask(f"{store}/{BUCKET}", "PUT")
        yield made


def _answers(machine: Machine, url: str) -> bool:
    try:
        machine.ask(url)
    except OSError:
        return False
    return True


def _until(is_so: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.3)


def night(cluster: Cluster) -> Any:
    """The command, typed on the hub."""
    cluster.environ |= {"PARLEY_DASK_ADDRESS": cluster.scheduler, "PARLEY_LAKE": cluster.url}
    model = (
        "--model",
        f"openai:mock@{cluster.model}",
        "--revision",
        "1",
        "--concurrency",
        str(CONCURRENCY),
    )
    typed = command("run", "crash.six", *model, "--json")[1:]
    return _start(cluster.hub, cluster, "night.txt", *typed)


def said(machine: Machine, name: str = "night.txt") -> str:
    return (machine.folder / name).read_text(errors="replace")


@pytest.mark.timeout(MAX_SECONDS)
def test_a_worker_killed_in_the_middle_costs_its_open_segment(cluster: Cluster) -> None:
    victim, _ = (cluster.dask_worker(machine) for machine in cluster.workers)
    _until(
        lambda: said(cluster.hub, "scheduler.txt").count("Register worker") == N_WORKERS,
        "the workers did not join",
    )
    process = night(cluster)
    _until(lambda: cluster.shipped() >= SHIPPED or process.poll() is not None, "too slow")
    victim.kill()
    shipped = cluster.shipped()
    asked = cluster.requests()["requests"]
    assert process.wait(LIMIT_S) == 0, said(cluster.hub)
    line = json.loads(re.findall(r"^\{.*\}$", said(cluster.hub), re.MULTILINE)[-1])
    assert (
        line["episodes"],
        line["owed"],
        line["n_infra"],
        line["n_unscored"],
        line["published"],
    ) == (N_DIALOGS, 0, 0, 0, True)
    requests = cluster.requests()
    assert len(requests["prompts"]) == TURNS
    assert 1 <= requests["repeated"] <= asked - shipped, (
        "answers of closed segments were asked for again"
    )
    for machine in cluster.workers:
        assert not list(machine.folder.rglob("*.parquet"))
        assert not list(machine.folder.rglob("*.jsonl"))
    assert not (cluster.hub.folder / "home" / "lake").exists()
    (found,) = ask(
        cluster.hub.folder / "home", "select count(*) as n from turns where role = 'assistant'"
    )
    assert found["n"] == TURNS
