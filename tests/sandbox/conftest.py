"""The real sandbox; where the machine cannot run it, its tests are skipped with what it says."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.backends.docker.backend import DockerSandbox
from sandbox.backends.docker.daemon import client
from schemas.errors import SandboxUnavailable
from tests.sandbox.backends.daemon import started_daemon, why_not
from tests.sandbox.backends.daemon_image import import_image, run_plain_container


@pytest.fixture(scope="session")
def bubblewrap() -> BubblewrapSandbox:
    sandbox = BubblewrapSandbox()
    try:
        sandbox.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return sandbox


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[str | None]:
    """Address of a Docker daemon: None for one that runs here already, else one of our own (see
    daemon.py).
    """
    try:
        client(None, 1)
    except SandboxUnavailable:
        reason = why_not()
        if reason is not None:
            pytest.skip(f"no Docker daemon: {reason}")
    else:
        yield None
        return
    with ExitStack() as stack:
        try:
            address = stack.enter_context(started_daemon())
        except RuntimeError as error:
            pytest.skip(f"no Docker daemon: {error}")
        yield address


@pytest.fixture(scope="session")
def docker_image(docker_daemon: str | None) -> tuple[str | None, str]:
    """The daemon, and on it the tests' own image (see daemon_image.py)."""
    api = client(docker_daemon, 2).api
    try:
        image = import_image(api)
        run_plain_container(api, image)
    except RuntimeError as error:
        pytest.skip(str(error))
    return docker_daemon, image


@pytest.fixture(scope="session")
def docker(
    docker_image: tuple[str | None, str], tmp_path_factory: pytest.TempPathFactory
) -> DockerSandbox:
    """A sandbox of that image."""
    daemon, image = docker_image
    sandbox = DockerSandbox(
        image=image, base_url=daemon, slot_directory=tmp_path_factory.mktemp("slots")
    )
    sandbox.check()  # a daemon that runs a container must run ours
    return sandbox
