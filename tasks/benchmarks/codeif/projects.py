"""Creation of the tasks' projects in DevEval's layout.

The files come from source distributions of the package registry, from git checkouts, or from public
repositories. `projects.json` lists each project with its repository, the commit and the release
that contain the tasks' code, and the packages that its tests import. A file of the same form,
passed as a resource of the build, adds projects or replaces bundled ones.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from schemas.base import Frozen
from schemas.errors import DataUnavailable, SourceUnreadable, UnknownName, UsageError
from tasks.benchmarks.codeif.stage import PACKAGES_FOLDER, RESOURCE
from tasks.benchmarks.results import Layout
from tasks.datasets.git import fetch_commit

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PYTEST = "pytest==7.4.0"
"""Version of pytest with which the tasks' tests were checked."""
_LIMIT_S = 900.0
_TEST_EXTRAS = ("test", "tests", "testing")
_HOST = "https://github.com/"
"""Host of the public repositories. Git's setting `url.<base>.insteadOf` can name a mirror."""


class Project(Frozen):
    """Source of a project's files."""

    repository: str
    commit: str
    release: str | None = None
    """`NAME==VERSION` of the package registry, if its source distribution contains the tasks' code
    and tests."""
    packages: tuple[str, ...] = ()
    """Requirements of the tests; empty if the project's own metadata declare them."""


_PROJECTS = TypeAdapter(dict[str, Project])


@cache
def projects() -> Mapping[str, Project]:
    """Return all bundled projects by their path in DevEval's layout, DOMAIN/PROJECT."""
    text = (files("tasks.benchmarks.codeif") / "projects.json").read_text(encoding="utf-8")
    return _PROJECTS.validate_json(text)


def with_listing(listing: Path | None) -> Mapping[str, Project]:
    """Return the bundled projects and those of another file, which override bundled ones.

    Raises:
        SourceUnreadable: the file is not a list of projects.
    """
    if listing is None:
        return projects()
    try:
        own_projects = _PROJECTS.validate_json(listing.read_bytes())
    except (OSError, ValueError) as error:
        detail = (
            error.errors()[0]
            if isinstance(error, ValidationError)
            else {"msg": str(error), "loc": ()}
        )
        where = ".".join(map(str, detail["loc"]))
        raise SourceUnreadable(
            f"{listing} is not a list of projects ({where}: {detail['msg']}). Each entry is"
            ' "DOMAIN/PROJECT": {"repository": "OWNER/NAME", "commit": "..."}'
        ) from error
    for name in own_projects:
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", name) or ".." in name.split("/"):
            raise SourceUnreadable(f"{listing}: {name!r} is not of the form DOMAIN/PROJECT")
    return {**projects(), **own_projects}


def lay_out(
    out: Path,
    checkouts: Mapping[str, Path],
    only: Sequence[str],
    say: Callable[[str], None],
    listing: Path | None = None,
    fetch: bool = False,
) -> Sequence[str]:
    """Create the folders of projects. An existing folder stays unchanged.

    A project comes from its checkout if there is one, else from its release in the package
    registry, else from its public repository if `fetch` is set.

    Args:
        out: folder in which DOMAIN/PROJECT folders are created.
        checkouts: repository (`OWNER/NAME`) or project (`DOMAIN/PROJECT`) -> a git checkout, bare
            or not, that contains the project's commit.
        only: projects, or the last parts of their names; empty for all available ones.
        say: called with the name of each project before its creation.
        listing: file with additional projects (see `with_listing`).
        fetch: fetch projects without checkout and release from their public repositories, by git.

    Returns:
        A line for each project.

    Raises:
        UnknownName: a checkout or a name belongs to no known project.
    """
    projects_by_path = with_listing(listing)
    selected = _selected(projects_by_path, only)
    for name in checkouts:
        if name not in projects_by_path and name not in {
            project.repository for project in projects_by_path.values()
        }:
            raise UnknownName("project or repository", name, projects_by_path)
    lines: list[str] = []
    for name, project in selected.items():
        checkout = checkouts.get(name) or checkouts.get(project.repository)
        if checkout is None and project.release is None and not fetch:
            if only:
                lines.append(
                    f"{name}: left out; name a checkout of {project.repository} that has"
                    f" {project.commit[:12]}, or --fetch it"
                )
            continue
        say(name)
        lines.append(f"{name}: {_lay_out_project(out / name, project, checkout)}")
    return lines


def _selected(
    projects_by_path: Mapping[str, Project], only: Sequence[str]
) -> Mapping[str, Project]:
    for name in only:
        if not any(name in (path, path.partition("/")[2]) for path in projects_by_path):
            raise UnknownName("project", name, projects_by_path)
    return {
        path: p
        for path, p in projects_by_path.items()
        if not only or {path, path.partition("/")[2]} & set(only)
    }


def _lay_out_project(target: Path, project: Project, checkout: Path | None) -> str:
    if target.exists():
        return "is there already"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".laying-out-") as folder:
        project_dir = Path(folder) / "project"
        try:
            if checkout is None and project.release is None:
                checkout = project_dir.with_name("fetched")
                fetch_commit(f"{_HOST}{project.repository}", project.commit, checkout, os.environ)
            source_note = (
                _from_git(project_dir, project, checkout)
                if checkout
                else _from_release(project_dir, project)
            )
            packages_note = _add_packages(project_dir, project)
        except (
            subprocess.SubprocessError,
            OSError,
            tarfile.TarError,
            UsageError,
            DataUnavailable,
        ) as error:
            return f"FAILED: {_last_line(error)}"
        project_dir.rename(target)
    return f"{source_note}{packages_note}"


def _from_git(project_dir: Path, project: Project, checkout: Path) -> str:
    project_dir.mkdir()
    archive_path = project_dir.with_suffix(".tar")
    command = (
        "git",
        "-c",
        "safe.directory=*",
        "-C",
        str(checkout),
        "archive",
        "-o",
        str(archive_path),
        project.commit,
    )
    subprocess.run(command, check=True, capture_output=True, timeout=_LIMIT_S)
    with tarfile.open(archive_path) as archive:
        archive.extractall(project_dir, filter="data")
    return f"commit {project.commit[:12]} of {project.repository}"


def _from_release(project_dir: Path, project: Project) -> str:
    release = project.release or ""
    folder = project_dir.with_name("downloaded")
    _pip("download", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), release)
    (archive,) = folder.iterdir()
    inside = project_dir.with_name("unpacked")
    shutil.unpack_archive(archive, inside, filter=None if archive.suffix == ".zip" else "data")
    (root,) = inside.iterdir()
    root.rename(project_dir)
    return f"source distribution {release}"


def _add_packages(project_dir: Path, project: Project) -> str:
    """Install pytest and the project's packages into a folder of the project.

    Packages that Parley's own environment has in the pinned version are skipped. A project without
    pins gets the requirements of its own metadata. All pins are constraints of the installation,
    because pip ignores installed packages when it installs into a folder, and this folder comes
    first on the path.
    """
    pins = (
        [pin for pin in project.packages if not _is_here(pin)]
        if project.packages
        else requirements_of(project_dir)
    )
    packages = [PYTEST, *pins]
    bounds = project_dir.with_name("constraints.txt")
    bounds.write_text("".join(f"{pin}\n" for pin in (PYTEST, *project.packages)), encoding="utf-8")
    target = project_dir / PACKAGES_FOLDER
    _pip(
        "install",
        "--quiet",
        "--no-compile",
        "--target",
        str(target),
        "--constraint",
        str(bounds),
        *packages,
    )
    shutil.rmtree(target / "bin", ignore_errors=True)
    return f", with {', '.join(packages)}"


def _is_here(pin: str) -> bool:
    distribution, _, wanted_version = pin.partition("==")
    try:
        return version(distribution) == wanted_version
    except PackageNotFoundError:
        return False


def _pip(*arguments: str) -> bytes:
    """Run pip and return its output. Raises CalledProcessError."""
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments)
    return subprocess.run(command, check=True, capture_output=True, timeout=_LIMIT_S).stdout


def requirements_of(project: Path) -> tuple[str, ...]:
    """Return the requirements of a project and its test extras that Parley's environment lacks.

    Raises:
        CalledProcessError: the project's metadata cannot be built.
    """
    report = _pip(
        *("install", "--quiet", "--dry-run", "--no-deps", "--ignore-installed"),
        *("--report", "-", str(project)),
    )
    metadata: dict[str, Any] = json.loads(report)["install"][0]["metadata"]
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
        return False  # a pinned version is installed
    try:
        return not requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return True


def _last_line(error: Exception) -> str:
    output = (
        error.stderr.decode(errors="replace")
        if isinstance(error, subprocess.CalledProcessError)
        else str(error)
    )
    return next(
        (line for line in reversed(output.strip().splitlines()) if line.strip()),
        type(error).__name__,
    )


LAYOUT = Layout(
    help=(
        "the repository tasks' projects in DevEval's layout, from the registry or from git "
        "checkouts"
    ),
    lay_out=lay_out,
    resource=RESOURCE,
    listing="projects",
)
