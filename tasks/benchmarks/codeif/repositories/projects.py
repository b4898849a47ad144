"""Lays the tasks' projects out in DevEval's layout: from the registry's source distributions, checkouts, or public repositories.

`projects.json` holds the facts of each project: its repository, the commit and the release that have the tasks' code, and
what its tests import beside it. A user's file of the same form adds projects, or replaces ours.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from schemas.base import Frozen
from schemas.errors import DataUnavailable, SourceUnreadable, UnknownName, UsageError
from tasks.benchmarks.codeif.repositories.repository import PACKAGES_FOLDER, RESOURCE
from tasks.benchmarks.codeif.repositories.requirements import requirements_of
from tasks.benchmarks.results import Layout
from tasks.datasets.git import fetch_commit

PYTEST = "pytest==7.4.0"
"""The version that the tasks' tests were checked with."""
_LIMIT_S = 900.0
_HOST = "https://github.com/"
"""Host of the projects' public repositories; git's own settings (`url.<base>.insteadOf`) name a mirror."""


class Project(Frozen):
    """Where a project comes from."""

    repository: str
    commit: str
    release: str | None = None
    """`NAME==VERSION` of the registry, where its source distribution holds the tasks' code and tests."""
    packages: tuple[str, ...] = ()
    """What its tests import, as requirements; none where its own metadata say it."""


_PROJECTS = TypeAdapter(dict[str, Project])


@cache
def projects() -> Mapping[str, Project]:
    """Every known project by its path in DevEval's layout, DOMAIN/PROJECT."""
    text = (files("tasks.benchmarks.codeif") / "projects.json").read_text(encoding="utf-8")
    return _PROJECTS.validate_json(text)


def with_listing(listing: Path | None) -> Mapping[str, Project]:
    """Return the known projects and those of a user's file, which come first.

    Raises:
        SourceUnreadable: the file is no such list.
    """
    if listing is None:
        return projects()
    try:
        own = _PROJECTS.validate_json(listing.read_bytes())
    except (OSError, ValueError) as error:
        said = (
            error.errors()[0]
            if isinstance(error, ValidationError)
            else {"msg": str(error), "loc": ()}
        )
        where = ".".join(map(str, said["loc"]))
        raise SourceUnreadable(
            f"{listing}: no list of projects ({where}: {said['msg']})"
        ) from error
    for name in own:
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", name) or ".." in name.split("/"):
            raise SourceUnreadable(f"{listing}: {name!r} is not of the form DOMAIN/PROJECT")
    return {**projects(), **own}


def lay_out(
    out: Path,
    checkouts: Mapping[str, Path],
    only: Sequence[str],
    say: Callable[[str], None],
    listing: Path | None = None,
    fetch: bool = False,
) -> Sequence[str]:
    """Lay out projects: of the checkouts given, of the registry, or those that are named. A project that is there stays as it is.

    Args:
        checkouts: repository (`OWNER/NAME`) or project (`DOMAIN/PROJECT`) -> a git checkout that has its commit, bare or not.
        only: projects, or the last parts of their names; none for all that can be had.
        listing: a user's own list of projects (`with_listing`).
        fetch: whether the commits of projects that have neither come from their public repositories, by git.

    Returns:
        A line for each project.

    Raises:
        UnknownName: a checkout or a name of no known project.
    """
    known = with_listing(listing)
    wanted = _chosen(known, only)
    for name in checkouts:
        if name not in known and name not in {project.repository for project in known.values()}:
            raise UnknownName("project or repository", name, known)
    lines: list[str] = []
    for name, project in wanted.items():
        checkout = checkouts.get(name) or checkouts.get(project.repository)
        if checkout is None and project.release is None and not fetch:
            if only:
                lines.append(
                    f"{name}: left out; name a checkout of {project.repository} that has {project.commit[:12]}, or --fetch it"
                )
            continue
        say(name)
        lines.append(f"{name}: {_one(out / name, project, checkout)}")
    return lines


def _chosen(known: Mapping[str, Project], only: Sequence[str]) -> Mapping[str, Project]:
    for name in only:
        if not any(name in (path, path.partition("/")[2]) for path in known):
            raise UnknownName("project", name, known)
    return {
        path: p
        for path, p in known.items()
        if not only or {path, path.partition("/")[2]} & set(only)
    }


def _one(place: Path, project: Project, checkout: Path | None) -> str:
    if place.exists():
        return "is there already"
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".laying-out-") as folder:
        made = Path(folder) / "project"
        try:
            if checkout is None and project.release is None:
                checkout = made.with_name("fetched")
                fetch_commit(f"{_HOST}{project.repository}", project.commit, checkout, os.environ)
            from_where = (
                _from_git(made, project, checkout) if checkout else _from_release(made, project)
            )
            lacking = _add_packages(made, project)
        except (
            subprocess.SubprocessError,
            OSError,
            tarfile.TarError,
            zipfile.BadZipFile,
            UsageError,
            DataUnavailable,
        ) as error:
            return f"FAILED: {_last_line(error)}"
        made.rename(place)
    return f"{from_where}{lacking}"


def _from_git(made: Path, project: Project, checkout: Path) -> str:
    made.mkdir()
    packed = made.with_suffix(".tar")
    command = (
        "git",
        "-c",
        "safe.directory=*",
        "-C",
        str(checkout),
        "archive",
        "-o",
        str(packed),
        project.commit,
    )
    subprocess.run(command, check=True, capture_output=True, timeout=_LIMIT_S)
    with tarfile.open(packed) as archive:
        archive.extractall(made, filter="data")
    return f"commit {project.commit[:12]} of {project.repository}"


def _from_release(made: Path, project: Project) -> str:
    release = project.release or ""
    folder = made.with_name("downloaded")
    _pip("download", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), release)
    (archive,) = folder.iterdir()
    inside = made.with_name("unpacked")
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(inside)
    else:
        with tarfile.open(archive) as packed:
            packed.extractall(inside, filter="data")
    (root,) = inside.iterdir()
    root.rename(made)
    return f"source distribution {release}"


def _add_packages(made: Path, project: Project) -> str:
    """Put beside it its pytest, and its pins that Parley's own environment lacks or has in another version.

    A project without pins gets what its own metadata ask for. All pins bound what these need in turn: an installation into a
    folder knows nothing of what is installed elsewhere, and what it brings comes first on the path.
    """
    pins = (
        [pin for pin in project.packages if not _is_here(pin)]
        if project.packages
        else requirements_of(made)
    )
    lacking = [PYTEST, *pins]
    bounds = made.with_name("constraints.txt")
    bounds.write_text("".join(f"{pin}\n" for pin in (PYTEST, *project.packages)), encoding="utf-8")
    place = made / PACKAGES_FOLDER
    _pip(
        "install",
        "--quiet",
        "--no-compile",
        "--target",
        str(place),
        "--constraint",
        str(bounds),
        *lacking,
    )
    shutil.rmtree(place / "bin", ignore_errors=True)
    return f", with {', '.join(lacking)}"


def _is_here(pin: str) -> bool:
    distribution, _, wanted = pin.partition("==")
    try:
        return version(distribution) == wanted
    except PackageNotFoundError:
        return False


def _pip(*arguments: str) -> None:
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments)
    subprocess.run(command, check=True, capture_output=True, timeout=_LIMIT_S)


def _last_line(error: Exception) -> str:
    said = (
        error.stderr.decode(errors="replace")
        if isinstance(error, subprocess.CalledProcessError)
        else str(error)
    )
    return next(
        (line for line in reversed(said.strip().splitlines()) if line.strip()), type(error).__name__
    )


LAYOUT = Layout(
    help="the repository tasks' projects in DevEval's layout, from the registry or from git checkouts",
    lay_out=lay_out,
    resource=RESOURCE,
    listing="projects",
)
