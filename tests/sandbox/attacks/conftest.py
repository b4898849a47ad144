"""Every isolated backend that works here, and the host with its baits."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from sandbox import registry
from sandbox.backends.zygote.pool import close_idle
from sandbox.canary.release import planted_baits
from sandbox.host import resource_limits
from sandbox.interface import Sandbox
from sandbox.registry import SANDBOXES
from schemas.errors import SandboxUnavailable
from tests.sandbox.attacks.corpus import SEED, WHOLE
from tests.sandbox.attacks.host import Host, marked_limits

AT_ONCE = 12
"""Programs at once: most of the slow ones only wait."""
CONTAINERS_AT_ONCE = 4
"""Starting one takes a processor's time."""
LOADED_ZYGOTE = "zygote with libraries"
"""Its programs are forked elsewhere than its supervisors, so it is a backend of its own here.

Any library will do.
"""


def _backend(name: str) -> ParameterSet:
    return pytest.param(name, marks=[pytest.mark.docker] if name == "docker" else [])


@pytest.fixture(
    scope="module",
    params=[*(_backend(name) for name in SANDBOXES.built_in if name != "none"), LOADED_ZYGOTE],
)
def sandbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    """With a slot for each program of ours; a backend that does not work here is skipped with what
    it says.
    """
    options: dict[str, Any] = {"slots": AT_ONCE, "slot_directory": tmp_path_factory.mktemp("slots")}
    if request.param == "docker":
        daemon, image = request.getfixturevalue("docker_image")
        options |= {"base_url": daemon, "image": image, "slots": CONTAINERS_AT_ONCE}
    name = request.param
    if name == LOADED_ZYGOTE:
        name, options["preload"] = "zygote", ("unittest.mock", "numpy")
    try:
        made = registry.load(name, **options)
        made.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    yield made
    # zygotes stay warm between runs, each with a group: what a run left in one is a process, looked
    # for after it
    close_idle()
    place = resource_limits._writable_parent()
    assert place is None or list(place[0].glob(f"parley-{os.getpid()}-*")) == []


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """Name of the sandbox of this test; a failure shows what drew its share of the corpus."""
    print(f"{SEED}={os.environ[SEED]} (every program: {WHOLE}=1)")
    return request.node.callspec.params["sandbox"]


@pytest.fixture
def host() -> Iterator[Host]:
    """Nothing may be left on it."""
    with planted_baits() as baits:
        yield Host(marked_limits(cpu_s=1, wall_s=3), baits)
