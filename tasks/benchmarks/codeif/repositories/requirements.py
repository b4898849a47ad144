"""Requirements from a project's own metadata, for projects without pins in `projects.json`."""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

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
    done = subprocess.run((*command, *arguments), check=True, capture_output=True, timeout=_LIMIT_S)
    metadata: dict[str, Any] = json.loads(done.stdout)["install"][0]["metadata"]
    listed = metadata.get("requires_dist") or _listed(project / "requirements.txt")
    return tuple(
        str(wanted) for wanted in map(_parsed, listed) if wanted is not None and _is_due(wanted)
    )


def _listed(path: Path) -> list[str]:
    """Return the lines of a requirements file that name a package."""
    if not path.is_file():
        return []
    lines = (
        line.partition(" #")[0].strip()
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
    )
    return [line for line in lines if line and line[0] not in "#-"]


def _parsed(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def _is_due(wanted: Requirement) -> bool:
    environments = [{"extra": ""}, *({"extra": extra} for extra in _TEST_EXTRAS)]
    if wanted.marker is not None and not any(
        wanted.marker.evaluate(environment) for environment in environments
    ):
        return False
    wanted.marker = None
    if wanted.name.lower() == "pytest":
        return False  # `projects.py` installs a pinned version
    try:
        return not wanted.specifier.contains(version(wanted.name), prereleases=True)
    except PackageNotFoundError:
        return True
