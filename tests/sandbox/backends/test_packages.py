"""Sandboxes whose programs find the packages of another folder in place of those installed beside
Parley.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import registry
from sandbox.host.python_environment import INSTALLED, environment_folders
from sandbox.judging.runners.programs import StatementProgram
from sandbox.judging.runners.run import run_tests
from schemas.run import Limits
from schemas.verdict import Outcome

PROGRAM = StatementProgram(
    code="import numpy",
    tests=("assert numpy.__version__ == '0.0.1'", "import sys; assert 'pandas' not in sys.modules"),
)
WITHOUT_PANDAS = StatementProgram(code="import numpy", tests=("import pandas",))


@pytest.fixture
def packages() -> Iterator[Path]:
    """A folder with a numpy of its own, where every sandbox shows it: inside Parley's own
    environment.
    """
    folder = Path(tempfile.mkdtemp(prefix="packages-", dir=sys.prefix))
    folder.chmod(0o755)
    (folder / "numpy").mkdir()
    (folder / "numpy" / "__init__.py").write_text("__version__ = '0.0.1'\n", encoding="utf-8")
    metadata = folder / "numpy-0.0.1.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.0.1\n", encoding="utf-8")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("name", ["zygote", "bubblewrap", "none"])
def test_programs_find_these_packages_and_no_others(name: str, packages: Path) -> None:
    ours, own = (
        registry.load_with(name, ("numpy",)),
        registry.load_with(name, ("numpy",), (str(packages),)),
    )
    assert run_tests(own, PROGRAM, Limits()).outcome is Outcome.PASSED
    assert run_tests(ours, PROGRAM, Limits()).outcome is Outcome.FAILED
    assert run_tests(own, WITHOUT_PANDAS, Limits()).outcome is Outcome.FAILED
    assert run_tests(ours, WITHOUT_PANDAS, Limits(memory_mb=2048)).outcome is Outcome.PASSED
    assert (
        own.fingerprint()
        != ours.fingerprint()
        == registry.load_with(name, ("numpy",)).fingerprint()
    )


def test_a_sandbox_with_an_image_takes_no_folders() -> None:
    assert not hasattr(registry.load_with("docker", (), ("/packages",)), "packages")


def test_an_environment_counts_once_its_installation_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    folder = tmp_path / "share" / "parley" / "thing"
    folder.mkdir(parents=True)
    assert environment_folders("thing") == ()
    (folder / INSTALLED).touch()
    assert environment_folders("thing") == (str(folder),)


def test_the_installed_environment_has_the_mark_that_sandboxes_look_for(tmp_path: Path) -> None:
    script = Path(__file__).parents[3] / ".ci" / "extra.sh"
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "packages.sh").write_text('mkdir -p "$4"')
    (tmp_path / "requirements-bigcodebench.lock").write_text("thing==1.0\n")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    subprocess.run(("sh", script, "bigcodebench"), cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / ".venv/share/parley/bigcodebench" / INSTALLED).is_file()
