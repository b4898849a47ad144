"""An agent of another project that is not installed is named before anything is started, with the
remedy.
"""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.cli.doctor import Finding, examine
from schemas.errors import SandboxUnavailable
from tasks.storage.home import Home
from tests.fixtures.model_server import model_server
from tests.tasks.dialogue.agents.outside_scripts import is_installed

AGENTS = ("mini-swe-agent", "openhands")


def variable(agent: str) -> str:
    return f"PARLEY_{agent.upper().replace('-', '_')}"


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.usefixtures("served_home", "bubblewrap")
def test_a_run_without_its_agent_is_refused_before_a_request(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable(agent), str(tmp_path / "none"))
    with model_server() as server:
        model = f"openai:mock@{server.base_url}"
        run = (
            "run",
            "dialogue_swebench.first_query",
            "--dataset-version",
            "sample",
            "--model",
            model,
            "--revision",
            "1",
        )
        ended = CliRunner().invoke(app, [*run, "--agent", agent])
    assert isinstance(ended.exception, SandboxUnavailable)
    assert f"make {agent}" in str(ended.exception)
    assert server.bodies == [], "nothing was asked"


@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_the_doctor_shows_each_agent_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = {finding.what: finding for finding in examine(Home(tmp_path))}
    for agent in AGENTS:
        assert _is_right(findings[f"agent {agent}"], agent)
        monkeypatch.setenv(variable(agent), "/bin/true")
    findings = {finding.what: finding for finding in examine(Home(tmp_path))}
    for agent in AGENTS:
        assert findings[f"agent {agent}"].ok is None


def _is_right(finding: Finding, agent: str) -> bool:
    """Return whether the doctor says of an agent that it is there, or names the remedy."""
    return (
        finding.ok is True
        if is_installed(agent)
        else finding.ok is None and f"make {agent}" in finding.detail
    )
