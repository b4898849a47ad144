"""The built wheel holds all that Parley needs, and works installed elsewhere, beside a person's own
file named tasks.py.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import duckdb
import pytest

from tests.own_files import ROOT, own_files, relative

pytestmark = [pytest.mark.slow, pytest.mark.long]

PACKAGES = ("schemas", "sandbox", "tasks", "warehouse", "flows")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
CONTROLS = """
models: [{spec: "control:gold"}, {spec: "control:empty"}]
benchmarks: [{name: codeif.static, dataset_version: sample}]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network from a copy of the project's own files."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for path in own_files():
        (source / relative(path)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, source / relative(path))
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(out),
        str(source),
    ]
    built = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the programs of a new environment: the wheel, and this environment's packages
    without its editable Parley.
    """
    environment = (
        tmp_path_factory.mktemp("environment") / "venv"
    )  # the outer folder is closed to the sandbox's user
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        str(wheel),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (site_packages,) = environment.glob("lib/python*/site-packages")
    # A folder named in a .pth file is searched last, and .pth files in it (the editable
    # installation) are not read.
    (site_packages / "packages_of_the_tests.pth").write_text(
        sysconfig.get_path("purelib") + "\n", encoding="utf-8"
    )
    return environment / "bin"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A person's own folder, with files that would hide two of ours if they were imported first."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in ("tasks.py", "flows.py"):
        (folder / name).write_text(
            "raise SystemExit('a file of the working directory was imported')\n", encoding="utf-8"
        )
    return folder


def parley(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command as a person would: from their folder, with a home and no variables
    of ours.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "PARLEY_"))
    }
    environment = kept | {"HOME": str(folder.parent), "PARLEY_HOME": str(folder.parent / "home")}
    command = [str(installed / "parley"), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=400
    )


def test_the_wheel_holds_the_five_packages_whole_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    ours = {relative(path) for path in own_files() if relative(path).split("/")[0] in PACKAGES}
    assert {name for name in held if ".dist-info/" not in name} == ours
    assert f"parley_eval-{VERSION}.dist-info/licenses/LICENSE" in held
    for place, ending in [("warehouse/sql/", ".sql"), ("/sample/", ""), ("/marts/", ".sql")]:
        assert [name for name in ours if place in name and name.endswith(ending)], (
            f"no {ending} file in {place}"
        )


def test_the_installed_command_knows_its_version_and_benchmarks(
    installed: Path, elsewhere: Path
) -> None:
    version = parley(installed, elsewhere, "--version")
    assert (version.returncode, version.stdout.strip()) == (0, f"parley {VERSION}"), version.stderr
    listed = parley(installed, elsewhere, "list", "benchmarks", "--json")
    assert listed.returncode == 0, listed.stderr
    assert any("codeif" in str(row) for row in json.loads(listed.stdout))


@pytest.mark.usefixtures("bubblewrap")
def test_the_installed_wheel_runs_a_night_of_the_controls(installed: Path, elsewhere: Path) -> None:
    (elsewhere / "controls.yaml").write_text(CONTROLS, encoding="utf-8")
    night = parley(installed, elsewhere, "nightly", "--config", "controls.yaml")
    assert night.returncode == 0, night.stdout + night.stderr
    with duckdb.connect(
        str(elsewhere.parent / "home" / "warehouse.duckdb"), read_only=True
    ) as warehouse:
        verdicts = warehouse.execute(
            "SELECT model, bool_and(outcome = 'passed') FROM test_verdicts GROUP BY model"
        ).fetchall()
        scores = warehouse.execute("SELECT count(*) FROM scores WHERE value IS NOT NULL").fetchone()
    assert dict(verdicts) == {"control:gold": True, "control:empty": False}
    assert scores is not None
    assert scores[0] > 0
