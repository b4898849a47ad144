"""The project's prefect.yaml, deployed: its cron schedule fires, a worker picks the night up, and
it is published.
"""

from pathlib import Path

import pytest
import yaml

from tests.flows.drivers import ROOT
from tests.flows.orchestration.deployment import (
    EVERY_MINUTE,
    deploy_all,
    wait_for_scheduled_run,
    with_schedule,
    worker,
)
from tests.flows.parley_command import ask
from tests.prefect_servers import prefect_server

NIGHT = {
    "models": [{"spec": "control:gold"}],
    "benchmarks": [{"name": "codeif.static", "dataset_version": "sample", "limit": 1}],
}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_the_nightly_schedule_starts_a_night_that_completes(tmp_path: Path, home: Path) -> None:
    config = tmp_path / "tonight.yaml"
    config.write_text(yaml.safe_dump(NIGHT), encoding="utf-8")
    text = with_schedule(
        ROOT / "prefect.yaml", "nightly", EVERY_MINUTE, {"config": str(config), "home": str(home)}
    )
    (tmp_path / "prefect.yaml").write_text(text, encoding="utf-8")
    pool = yaml.safe_load(text)["deployments"][0]["work_pool"]["name"]
    with prefect_server(home):
        deployed = deploy_all(tmp_path)
        assert "nightly/nightly" in deployed
        assert "nightly/on-demand" in deployed
        with worker(pool, tmp_path) as log:
            run = wait_for_scheduled_run("nightly/nightly", log, limit_s=400)
        artifacts = _artifacts()
    assert (run.state, run.message) == ("COMPLETED", "")
    assert ask(home, "SELECT mean FROM leaderboard WHERE metric = 'instruction_accuracy'") == [
        {"mean": 1.0}
    ]
    assert "control:gold" in artifacts["leaderboard"]
    assert "finished" in artifacts["checks"]
    assert {"progress-converse", "progress-execute"} <= artifacts.keys()


def _artifacts() -> dict[str, str]:
    """Key and data of all artifacts of the server."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return {str(a.key): str(a.data) for a in client.read_artifacts()}
