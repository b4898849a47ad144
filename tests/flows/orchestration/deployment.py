"""A deployment as an operator makes it: work pool, `prefect deploy --all`, a worker, and a schedule
that is waited for.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.flows.drivers import ROOT, living

CLI_LIMIT_S = 120
DONE = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
EVERY_MINUTE = {"cron": "* * * * *", "timezone": "UTC"}


@dataclass(frozen=True)
class ScheduledRun:
    """A run that the scheduler made, not a person."""

    id: str
    name: str
    state: str
    message: str
    parameters: Mapping[str, Any]


def prefect(*arguments: str, cwd: Path) -> str:
    """Run one Prefect command without prompts against PREFECT_API_URL; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "prefect", *arguments],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=CLI_LIMIT_S,
    )
    assert done.returncode == 0, f"prefect {' '.join(arguments)}: {done.stdout}"
    return done.stdout


def environment() -> dict[str, str]:
    """Ours, with this checkout importable, no prompts, and a worker that looks for work each
    second.
    """
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    quiet = {"PREFECT_CLI_PROMPT": "false", "NO_COLOR": "1", "COLUMNS": "200"}
    return os.environ | quiet | {"PYTHONPATH": path, "PREFECT_WORKER_QUERY_SECONDS": "1"}


def with_schedule(
    source: Path, deployment: str, schedule: Mapping[str, object], parameters: Mapping[str, object]
) -> str:
    """The text of a prefect.yaml in which that deployment has another schedule, and parameters
    besides its own.
    """
    document = yaml.safe_load(source.read_text(encoding="utf-8"))
    (entry,) = [entry for entry in document["deployments"] if entry["name"] == deployment]
    entry["schedules"] = [dict(schedule)]
    entry["parameters"] = {**(entry.get("parameters") or {}), **parameters}
    return yaml.safe_dump(document, sort_keys=False)


def deploy_all(folder: Path) -> str:
    """Make the work pools that `folder`/prefect.yaml names, and deploy all that it holds."""
    document = yaml.safe_load((folder / "prefect.yaml").read_text(encoding="utf-8"))
    for pool in sorted({entry["work_pool"]["name"] for entry in document["deployments"]}):
        prefect("work-pool", "create", pool, "--type", "process", "--overwrite", cwd=folder)
        prefect("work-pool", "set-concurrency-limit", pool, "1", cwd=folder)
    return prefect("deploy", "--all", cwd=folder)


@contextmanager
def worker(pool: str, folder: Path) -> Iterator[Path]:
    """A process worker for the length of the block: its log.

    All that it started is killed with it, by pid.
    """
    log = folder / "worker.log"
    with open(log, "wb") as sink:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "prefect",
                "worker",
                "start",
                "--pool",
                pool,
                "--install-policy",
                "never",
            ],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        started = [
            psutil.Process(process.pid),
            *psutil.Process(process.pid).children(recursive=True),
        ]
        for member in living(started):
            with suppress(psutil.NoSuchProcess):  # it ended meanwhile
                member.kill()
        process.wait()


def wait_for_scheduled_run(name: str, log: Path, limit_s: float) -> ScheduledRun:
    """The first run of deployment `flow/deployment` that its schedule made and that ended, within
    `limit_s` seconds.
    """
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        ended = [run for run in scheduled_runs(name) if run.state in DONE]
        if ended:
            return ended[0]
        time.sleep(0.5)
    states = [run.state for run in scheduled_runs(name)]
    said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise AssertionError(
        f"no scheduled run of {name} ended in {limit_s:.0f} s; states: {states}; the worker "
        f"wrote: {said}"
    )


def scheduled_runs(name: str) -> list[ScheduledRun]:
    """Every run that the scheduler made for that deployment, in the order of their times."""
    from prefect.client.orchestration import SyncPrefectClient, get_client

    with get_client(sync_client=True) as client:
        assert isinstance(client, SyncPrefectClient)
        deployment = client.read_deployment_by_name(name)
        question = {
            "deployments": {"id": {"any_": [str(deployment.id)]}},
            "sort": "EXPECTED_START_TIME_ASC",
        }
        answer = client.request("POST", "/flow_runs/filter", json=question).json()
    return [
        ScheduledRun(
            run["id"],
            run["name"],
            run["state_type"],
            run["state"].get("message") or "",
            run["parameters"],
        )
        for run in answer
        if run["auto_scheduled"]
    ]
