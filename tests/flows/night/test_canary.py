"""A night whose sandbox lets a cheat pass, or fails a gold, is void before anything is started."""

from pathlib import Path

import pytest

from flows.night.preflight import checks
from flows.night.preflight.checks import require_live_canary
from sandbox.canary.release import Canary
from schemas.errors import NightVoid, SandboxUnavailable, UnknownName
from tests.flows.drivers import ROOT
from tests.flows.parley_command import parley_process

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]

CONFIG = """\
sandbox: {sandbox}
models: [{{spec: "control:gold"}}]
benchmarks: [{{name: codeif.static, dataset_version: sample, limit: 1}}]
"""
STINGY = """\
from sandbox.backends.bubblewrap.backend import BubblewrapSandbox

class Stingy(BubblewrapSandbox):
    name = "stingy"
    def session(self, limits, **options):
        return super().session(limits.model_copy(update={"processes": 2}), **options)
"""


@pytest.fixture
def stingy(tmp_path: Path) -> str:
    """PYTHONPATH of an installed sandbox that lets programs start no process or thread: one of the
    golds cannot pass in it.
    """
    folder = tmp_path / "plugin"
    about = folder / "stingy-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "stingy.py").write_text(STINGY)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stingy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[parley.sandboxes]\nstingy = stingy:Stingy\n")
    return f"{ROOT}:{folder}"


def test_a_night_in_a_sandbox_that_fails_a_gold_is_void(
    home: Path, tmp_path: Path, stingy: str
) -> None:
    config = tmp_path / "night.yaml"
    config.write_text(CONFIG.format(sandbox="stingy"))
    done = parley_process(
        home, "nightly", "--config", config, environ={"PYTHONPATH": stingy}, cwd=tmp_path
    )
    assert done.code == 3
    assert (
        "the night was not started: in sandbox 'stingy' reference solutions that failed" in done.err
    )
    assert "legitimate: threads, a process, a temporary file" in done.err
    assert not (home / "lake").exists()
    assert not (home / "prefect").exists()


def test_a_sandbox_that_holds_says_so() -> None:
    (line,) = require_live_canary(["bubblewrap", "bubblewrap"])
    assert line.startswith(
        "canary in sandbox bubblewrap: 7 attacks blocked, 4 reference solutions passed"
    )


def test_a_cheat_that_passes_voids_the_night(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        checks, "release_canary", lambda _: Canary(10, 4, passed=("forge: a cheat",), failed=())
    )
    with pytest.raises(NightVoid, match="attacks that passed: forge: a cheat") as caught:
        require_live_canary(["bubblewrap"])
    assert caught.value.exit_code == 3


def test_a_sandbox_that_does_not_run_or_is_not_known_voids_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownName, match="bubblewarp"):
        require_live_canary(["bubblewarp"])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="bubblewrap is not installed"):
        require_live_canary(["bubblewrap"])
