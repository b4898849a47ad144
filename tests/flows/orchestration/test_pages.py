"""What a person sees in the Prefect UI: a night before and after Retry, its withheld run, the
artifacts. Screenshots are kept.
"""

import os
import re
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client

from tests.fixtures.browser import BROWSER, shown
from tests.fixtures.model_server import model_server
from tests.flows.orchestration.deployed_night import (
    POOL,
    DeployedNight,
    deploy_unscheduled,
    trigger,
)
from tests.flows.orchestration.deployment import worker
from tests.prefect_servers import prefect_server

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.usefixtures("bubblewrap"),
    pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed: apt install chromium"),
]


def page(path: str, pictures: Path, name: str, *wanted: str) -> str:
    """Text of a page of the UI once it holds all that is wanted, as often as it is given; its
    picture lies in `pictures`.
    """
    ui = os.environ["PREFECT_API_URL"].removesuffix("/api")

    def text(document: str) -> str:
        return " ".join(
            re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", document, flags=re.DOTALL).split()
        )

    def lacking(seen: str) -> list[str]:
        return [word for word in wanted if seen.count(word) < wanted.count(word)]

    seen = text(
        shown(f"{ui}{path}", pictures / f"{name}.png", lambda document: not lacking(text(document)))
    )
    assert lacking(seen) == [], seen[-3000:]
    assert (pictures / f"{name}.png").stat().st_size > 10_000
    return seen


def a_night_with_a_withheld_run(folder: Path, home: Path) -> DeployedNight:
    """Two models; the recording of one lacks answers, so that its run is withheld."""
    (folder / "cut.jsonl").write_text(
        '{"problem_id": "function/0", "turn": 1, "content": "pass"}\n', encoding="utf-8"
    )
    models = [{"spec": "control:gold"}, {"spec": f"recorded:{folder / 'cut.jsonl'}"}]
    with model_server() as unasked, worker(POOL, folder):
        night = trigger("nightly/nightly", folder, home, unasked, models=models)
        assert night.wait_until_it_ended() == "COMPLETED"
    return night


def retried(night: DeployedNight) -> None:
    """What a person does next who sees Retry on the page of a crashed night."""
    with worker(POOL, night.folder):
        night.retry()
        assert night.wait_until_it_ended() == "COMPLETED"


def artifacts() -> dict[str, str]:
    """Key and id of the server's artifacts."""
    with get_client(sync_client=True) as client:
        return {str(artifact.key): str(artifact.id) for artifact in client.read_artifacts()}


def test_the_pages_of_a_night_show_its_runs_results_and_retry(tmp_path: Path, home: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    with prefect_server(home):
        deploy_unscheduled(tmp_path)
        night = a_night_with_a_withheld_run(tmp_path, home)
        run = f"/runs/flow-run/{night.run_id}"
        page(run, pictures, "night", "night · 2 models on codeif.static", "Completed")
        (withheld,) = [
            inner["id"] for inner in night.inner_flows() if inner["state_name"] == "Withheld"
        ]
        page(
            f"/runs/flow-run/{withheld}",
            pictures,
            "withheld",
            "recorded:cut",
            "Withheld",
            "something_scored",
        )
        page("/runs", pictures, "runs", "control:gold", "recorded:cut", "Withheld")
        page("/artifacts", pictures, "artifacts", "leaderboard", "checks", "progress-converse")
        made = artifacts()
        page(
            f"/artifacts/artifact/{made['leaderboard']}",
            pictures,
            "leaderboard",
            "Leaderboard of night",
            "control:gold",
        )
        page(
            f"/artifacts/artifact/{made['checks']}",
            pictures,
            "checks",
            "recorded:cut",
            "withheld",
            "faults",
        )
        night.set_state("CRASHED", "Crashed")
        page(run, pictures, "crashed", "Crashed", "Retry")
        retried(night)
        page(
            run,
            pictures,
            "retried",
            "night · 2 models on codeif.static",
            "Completed",
            *["Beginning flow run"] * 2,
        )
    print(f"screenshots: {pictures}")
