"""Who installs the packages in `make install`, uv or pip, and what it tells uv of pip's
configuration. Nothing is downloaded.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.own_files import ROOT

PROGRAM = ROOT / ".ci" / "pip_settings.py"
TOOLS = ("sh", "cat", "chmod", "cp", "grep", "mkdir", "rm", "touch")
PYTHON = """#!/bin/sh
case "$1" in -c|.ci/*.py) exec {python} "$@";; esac
echo "python $*" >> calls
case "$*" in
  "-m venv "*) mkdir -p .venv/bin && cp "$0" .venv/bin/python;;
  "-m pip install "*" uv") [ -e uv_on_the_index ] && mkdir -p .venv/.uv/bin && cp uv_on_the_index .venv/.uv/bin/uv;;
  "-m pip install "*) [ ! -e pip_fails ];;
esac
"""
UV = """#!/bin/sh
echo "uv $* into $UV_PYTHON from $UV_DEFAULT_INDEX" >> calls
case "$*" in *--requirement*) [ ! -e uv_fails ];; esac
"""
INDEX = "http://one.test/simple"
BY_UV = [
    f"uv pip install {what} into .venv/bin/python from {INDEX}"
    for what in ("--requirement", "--editable")
]
BY_PIP = ["python pip install --requirement", "python pip install --editable"]


def configured(folder: Path, configuration: str) -> dict[str, str]:
    """Variables with which pip finds this configuration and no other."""
    file = folder / "pip.conf"
    file.write_text(configuration)
    return {"PIP_CONFIG_FILE": str(file)} | dict.fromkeys(
        ("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"), str(folder)
    )


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def installed(
    folder: Path, *there: str, configuration: str = f"[global]\nindex-url = {INDEX}\n"
) -> tuple[int, list[str]]:
    """Type `make install` with a Python and a uv that only say what they are asked for; its exit
    code, and who installed what.

    Args:
        there: `uv` at hand, `uv_on_the_index` of pip, and what fails.
    """
    tools = folder / "tools"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(str(shutil.which(name)))
    write_program(tools / "python3", PYTHON.format(python=shlex.quote(sys.executable)))
    for name in there:
        write_program(tools / "uv" if name == "uv" else folder / name, UV)
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copytree(ROOT / ".ci", folder / ".ci")
    (folder / "requirements.lock").write_text("one==1\n")
    (folder / "pyproject.toml").touch()
    environ = {"PATH": str(tools), **configured(folder, configuration)}
    done = subprocess.run(
        (str(shutil.which("make")), "install"),
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
    )
    return done.returncode, [*_named(folder.joinpath("calls").read_text().splitlines())]


def _named(calls: Sequence[str]) -> list[str]:
    """Installations of Parley's packages and of Parley, without options that are alike."""
    found = [call for call in calls if " pip install " in call and "--target" not in call]
    return [
        re.sub(r" -(?!-requirement|-editable)\S+| requirements\.lock| \.(?= |$)", "", call)
        for call in found
    ]


def exported(
    tmp_path: Path, configuration: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run the program that translates pip's configuration, where pip is configured like this."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIP_", "UV_", "SSL_"))
    }
    environ = kept | configured(tmp_path, configuration) | environ
    return subprocess.run(
        (sys.executable, str(PROGRAM)), capture_output=True, text=True, env=environ
    )


def variables(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The variables as a shell sees them."""
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(
        ("sh", "-c", f"{done.stdout}\nenv"), capture_output=True, text=True, env={}, check=True
    ).stdout
    return {
        name: value
        for name, _, value in (line.partition("=") for line in shown.splitlines())
        if name[:3] in ("UV_", "SSL")
    }


@pytest.mark.slow
def test_indexes_links_and_certificates_are_handed_on(tmp_path: Path) -> None:
    done = exported(
        tmp_path,
        "[global]\nindex-url = http://one.test/simple\nextra-index-url =\n  "
        "http://two.test/simple\n  http://three.test/simple\n"
        "cert = /certificates/it's.pem\ntimeout = 60\n"
        "[install]\nfind-links = /wheels /more\nconstraint =\n  /pins.txt\n  "
        "/caps.txt\n[list]\nformat = columns\n",
    )
    wanted = {
        "UV_DEFAULT_INDEX": "http://one.test/simple",
        "UV_INDEX": "http://two.test/simple http://three.test/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_CONSTRAINT": "/pins.txt /caps.txt",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "SSL_CERT_FILE": "/certificates/it's.pem",
    }
    assert wanted.items() <= variables(done).items()


@pytest.mark.slow
def test_a_variable_for_pip_wins_over_its_files_and_one_for_uv_over_both(tmp_path: Path) -> None:
    configuration = "[global]\nindex-url = http://one.test/simple\nfind-links = /wheels\n"
    done = exported(
        tmp_path, configuration, PIP_INDEX_URL="http://two.test/simple", UV_FIND_LINKS="/mine"
    )
    assert variables(done)["UV_DEFAULT_INDEX"] == "http://two.test/simple"
    assert "UV_FIND_LINKS" not in done.stdout


@pytest.mark.slow
def test_what_uv_has_no_word_for_leaves_it_to_pip(tmp_path: Path) -> None:
    done = exported(tmp_path, "[install]\nno-binary = :all:\n")
    assert done.returncode == 1
    assert "no-binary" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("there", "calls"),
    [
        (("uv",), BY_UV),
        (("uv_on_the_index",), BY_UV),
        ((), BY_PIP),
        (("uv", "uv_fails"), [BY_UV[0], BY_PIP[0], BY_UV[1]]),
    ],
    ids=["at hand", "can be installed", "nowhere", "fails"],
)
def test_uv_installs_where_it_can_and_pip_else(
    tmp_path: Path, there: tuple[str, ...], calls: list[str]
) -> None:
    assert installed(tmp_path, *there) == (0, calls)
    assert (tmp_path / ".venv" / ".installed").exists()
    assert not (tmp_path / ".venv" / ".installing").exists()


@pytest.mark.slow
def test_pip_installs_where_uv_would_not_heed_its_configuration(tmp_path: Path) -> None:
    assert installed(tmp_path, "uv", configuration="[install]\nno-binary = :all:\n") == (0, BY_PIP)


def test_an_installation_that_failed_is_not_taken_for_one(tmp_path: Path) -> None:
    code, calls = installed(tmp_path, "pip_fails")
    assert (code, calls) == (2, BY_PIP[:1])
    assert (tmp_path / ".venv" / ".installing").exists()
    assert not (tmp_path / ".venv" / ".installed").exists()
