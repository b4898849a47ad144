"""Workspaces of every sandbox, held to one list: network, host, limits, and a state that lasts."""

from pathlib import Path

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.backends.docker.backend import DockerSandbox
from sandbox.backends.unisolated import UnisolatedSandbox
from sandbox.backends.zygote.backend import ZygoteSandbox
from sandbox.workspace.conformance import Opening, cases
from sandbox.workspace.workspace import workspaces_of
from schemas.errors import SandboxUnavailable
from tasks.storage.files.trees import TreeStore

NAMES = [case.name for case in cases(TreeStore(Path("unused")))]


def violation(name: str, sandbox: BubblewrapSandbox | DockerSandbox, folder: Path) -> str:
    (case,) = (case for case in cases(TreeStore(folder)) if case.name == name)
    return case.violation(sandbox)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_bubblewrap_conforms(bubblewrap: BubblewrapSandbox, name: str, tmp_path: Path):
    assert violation(name, bubblewrap, tmp_path) == ""


@pytest.mark.docker
@pytest.mark.parametrize("name", NAMES)
def test_docker_conforms(docker: DockerSandbox, name: str, tmp_path: Path):
    assert violation(name, docker, tmp_path) == ""


def test_the_zygotes_workspaces_are_bubblewraps(bubblewrap: BubblewrapSandbox, tmp_path: Path):
    del bubblewrap  # skips where it does not run
    with Opening(ZygoteSandbox(), TreeStore(tmp_path))() as workspace:
        assert workspace.run(workspace.shell("pwd")).stdout == b"/testbed\n"


def test_without_isolation_there_is_no_workspace():
    with pytest.raises(SandboxUnavailable, match="Use --sandbox bubblewrap or docker"):
        workspaces_of(UnisolatedSandbox())
