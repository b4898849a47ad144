"""An image of the form of SWE-bench's, made here of Debian's packages: no registry is asked.

/testbed has an instance's repository at its base commit, with the fix in a later one, a remote, a
log and what a build left there; /opt/miniconda3/envs/testbed has the Python that its tests run
with.
"""

import io
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from schemas.problem import Problem
from tests.tasks.benchmarks.dialogue_swebench.graded import base_files

PACKAGES = ("python3", "python3-pytest", "git", "patch")
BUILT = "built.egg-info/PKG-INFO"
"""What the build left: git knows nothing of it."""
_WHO = {
    f"GIT_{who}_{what}": "Parley" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}
_WHO |= {f"GIT_{who}_EMAIL": "parley@localhost" for who in ("AUTHOR", "COMMITTER")}
_WHO |= {f"GIT_{who}_DATE": "2000-01-01T00:00:00 +0000" for who in ("AUTHOR", "COMMITTER")}


def lay_out(problem: Problem, folder: Path) -> None:
    """The repository as such an image has it."""
    assert problem.repo is not None
    for name, text in base_files(problem.repo.repo).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message=Base")
    assert git(folder, "rev-parse", "HEAD").strip() == problem.repo.base_commit
    git(folder, "apply", "-", stdin=problem.reference_code)
    git(folder, "commit", "--quiet", "--all", "--message=The fix of tomorrow")
    git(folder, "tag", "tomorrow")
    git(folder, "reset", "--quiet", "--hard", "HEAD~1")
    git(folder, "remote", "add", "origin", "https://example.org/repository.git")
    (folder / BUILT).parent.mkdir()
    (folder / BUILT).write_text("Name: built\n")


def git(folder: Path, *arguments: str, stdin: str = "") -> str:
    """What git says."""
    environment = {**os.environ, **_WHO, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ("git", *arguments),
        cwd=folder,
        env=environment,
        input=stdin,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def tag_image(
    api: Any, base: str, name: str, problem: Problem, folder: Path, python: str = "/usr/bin/python3"
) -> None:
    """Put an image of an instance onto a daemon.

    Args:
        base: image with Python, pytest, git and patch.
        name: with a tag.
        folder: empty; the repository is laid out here first.
        python: the program that its environment has.
    """
    lay_out(problem, folder)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        link = tarfile.TarInfo("opt/miniconda3/envs/testbed/bin/python")
        link.type, link.linkname = tarfile.SYMTYPE, python
        tar.addfile(link)
        tar.add(folder, "testbed")
    container = api.create_container(base, "true")["Id"]
    try:
        api.put_archive(container, "/", packed.getvalue())
        repository, _, tag = name.rpartition(":")
        api.commit(container, repository=repository, tag=tag)
    finally:
        api.remove_container(container)
