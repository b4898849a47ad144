"""A project that is laid out once more, or with other packages: what a run asks again, and what it
only grades again.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tasks.benchmarks.codeif import BENCHMARK, SAMPLE_REPOSITORIES
from tasks.benchmarks.codeif.stage import PACKAGES_FOLDER
from tests.flows.parley_command import parley

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
PROJECTS = Path(str(BENCHMARK.data.bundled[SAMPLE_REPOSITORIES])) / "projects"


def laid_out(place: Path, version: str) -> Path:
    """The sample's project with a package of this version, whose record names the place where pip
    put it.
    """
    shutil.copytree(PROJECTS, place)
    package = place / "Sample" / "ledger" / PACKAGES_FOLDER / f"nothing-{version}.dist-info"
    package.mkdir(parents=True)
    (package / "RECORD").write_text(f"{place}/bin/nothing,sha256=0,1\n", encoding="utf-8")
    return place


def test_what_was_answered_is_kept_and_other_packages_are_graded_again(
    home: Path, tmp_path: Path
) -> None:
    def run(folder: str, version: str) -> Any:
        projects = laid_out(tmp_path / folder, version)
        said = (
            "run",
            "codeif.static",
            "--dataset-version",
            SAMPLE_REPOSITORIES,
            "--limit",
            "1",
            "--model",
            "control:gold",
        )
        return parley(
            home, *said, "--resource", f"repos={projects}", "--workers", "1", "--json"
        ).json()

    first = run("first", "1.0")
    assert (first["status"], first["n_new"], first["n_infra"]) == ("finished", 1, 0)
    assert first["programs_run"] > 0
    again = run("again", "1.0")
    assert (again["run_id"], again["n_reused"], again["programs_run"]) == (first["run_id"], 1, 0)
    other = run("other", "1.1")
    assert (other["n_new"], other["reused_from"]) == (0, {first["run_id"]: 1})
    assert other["programs_run"] == first["programs_run"]
    assert {change["reruns"] for change in other["why"]} == {"tests"}
