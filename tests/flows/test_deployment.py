"""The project's prefect.yaml, deployed: its cron schedule fires, a worker picks the run up, and it completes."""

from pathlib import Path

import pytest
import yaml

from flows.prefect_server import prefect_server
from tests.flows.deployment import EVERY_MINUTE, deploy_all, wait_for_scheduled_run, with_schedule, worker
from tests.flows.drivers import ROOT

TRIVIAL_FLOW = """
from pathlib import Path
from prefect import flow
@flow(name="nightly")
def nightly(config: str) -> None:
    Path("ran.txt").write_text(config, encoding="utf-8")
"""


@pytest.mark.slow
def test_the_nightly_schedule_starts_a_run_that_completes(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trivial_nightly.py").write_text(TRIVIAL_FLOW, encoding="utf-8")
    text = with_schedule(ROOT / "prefect.yaml", "nightly", EVERY_MINUTE, {"config": "tonight.yaml"})
    (tmp_path / "prefect.yaml").write_text(text.replace("flows.nightly.nightly", "trivial_nightly.nightly"), encoding="utf-8")
    pool = yaml.safe_load(text)["deployments"][0]["work_pool"]["name"]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with prefect_server(home):
        deploy_all(tmp_path)
        with worker(pool, tmp_path) as log:
            run = wait_for_scheduled_run("nightly/nightly", log, limit_s=120)
    assert (run.state, run.message) == ("COMPLETED", "")
    assert run.parameters == {"config": "tonight.yaml"}
    assert (tmp_path / "ran.txt").read_text(encoding="utf-8") == "tonight.yaml"
