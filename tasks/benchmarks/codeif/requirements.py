"""Requirements from a project's own metadata, for projects without pins in `projects.json`."""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_TEST_EXTRAS = ("test", "tests", "testing")
_LIMIT_S = 900.0


def requirements_of(project: Path) -> tuple[str, ...]:
    """Return the requirements of a project and its test extras that Parley's environment lacks.

    Raises:
        CalledProcessError: the project's metadata cannot be built.
    """
    command = (
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--dry-run",
        "--no-deps",
    )
    arguments = ("--ignore-installed", "--report", "-", str(project))
    report = subprocess.run(
        (*command, *arguments), check=True, capture_output=True, timeout=_LIMIT_S
    )
    metadata: dict[str, Any] = json.loads(report.stdout)["install"][0]["metadata"]
    lines = metadata.get("requires_dist") or _requirement_lines(project / "requirements.txt")
    return tuple(
        str(requirement)
        for requirement in map(_parse, lines)
        if requirement is not None and _is_missing(requirement)
    )


def _requirement_lines(path: Path) -> list[str]:
    """Return the lines of a requirements file that name a package."""
    if not path.is_file():
        return []
    lines = (
        line.partition(" #")[0].strip()
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
    )
    return [line for line in lines if line and line[0] not in "#-"]


def _parse(text: str) -> "Requirement | None":
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def _is_missing(requirement: "Requirement") -> bool:
    environments = [{"extra": ""}, *({"extra": extra} for extra in _TEST_EXTRAS)]
    if requirement.marker is not None and not any(
        requirement.marker.evaluate(environment) for environment in environments
    ):
        return False
    requirement.marker = None
    if requirement.name.lower() == "pytest":
        return False  # `projects.py` installs a pinned version
    try:
        return not requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return True
