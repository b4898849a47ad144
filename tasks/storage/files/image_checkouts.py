"""Commits of repositories in Docker images, as trees for agents.

A tree contains the files of the commit, as in `checkouts.py`, and the files that the image's build
added (extensions, `.egg-info`), without which the project could not be imported. All belong
to the tree's one commit. The image's own settings, hooks and filters are not read: git works in a
separate folder with the image's objects.
"""

import json
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sandbox.backends.docker.backend import DockerSandbox
from sandbox.workspace.interface import image_of
from schemas.content_id import content_id
from schemas.errors import CorruptRows, ImageFault, SourceUnreadable
from schemas.problem import RepoSnapshot
from tasks.storage.files.checkouts import LAYOUT, Checkouts
from tasks.storage.files.git_repositories import Repository, run_git
from tasks.storage.new_folder import replace_file

PLACE = "/testbed"
_LAYOUT = 1
"""Version of the trees' layout. Raise it if a change gives an image another tree."""
_COMPILED = (b".pyc", b".pyo")


@dataclass
class ImageCheckouts:
    """Trees of commits in images. Each tree is made once for a home.

    Args:
        checkouts: makes and stores the trees.
    """

    checkouts: Checkouts

    def tree(self, image: str, commit: str) -> str:
        """Return the digest of a commit's tree, with the files that the image built beside it.

        Args:
            image: image, pinned by digest.
            commit: id of the commit.

        Raises:
            SourceUnreadable: the image's repository cannot be read, or lacks the commit.
            SandboxUnavailable: the image or its folder is missing.
        """
        record = (
            self.checkouts.records / f"image-{content_id([image, commit, LAYOUT, _LAYOUT])}.json"
        )
        try:
            digest: str = json.loads(record.read_text())["tree"]
            self.checkouts.trees.get(digest)
        except (OSError, ValueError, KeyError, CorruptRows):
            with tempfile.TemporaryDirectory(prefix="parley-image-") as name:
                copied, own = Path(name) / "copied", Path(name) / "own"
                copied.mkdir()
                own.mkdir()
                DockerSandbox(image=image).copy_folder(PLACE, copied)
                digest = self.checkouts.tree(
                    Repository(own, image), with_built_files(copied, own, commit)
                )
            replace_file(record, json.dumps({"tree": digest}).encode())
        return digest


def with_trees(repository: RepoSnapshot, checkouts: Checkouts) -> RepoSnapshot:
    """Return a task's repository with the digests of its trees, made from its Docker image.

    Raises:
        ImageFault: the image's repository cannot be read, or the test patch does not apply to it.
        SandboxUnavailable: the daemon does not have the image.
    """
    image = image_of(repository.environment)
    try:
        tree = ImageCheckouts(checkouts).tree(image, repository.base_commit)
        tested = checkouts.patched(tree, repository.test_patch)
    except SourceUnreadable as error:
        raise ImageFault(
            f"repository_unreadable: {error}, in the image {image}", permanent=True
        ) from error
    return repository.model_copy(update={"tree": tree, "tested_tree": tested})


def with_built_files(copied: Path, own: Path, commit: str) -> str:
    """Make a repository in `own` with the objects of a copied one, and commit its untracked files.

    Returns:
        Id of a commit with the files of `commit` and the untracked files of the copied repository.

    Raises:
        SourceUnreadable: git cannot read the copied repository, or it lacks the commit.
    """
    objects = copied / ".git" / "objects"
    if not objects.is_dir():
        raise SourceUnreadable(f"there is no git repository at {PLACE}")
    (objects / "info" / "alternates").unlink(missing_ok=True)
    run_git(own, "init", "--quiet", "--template=", "--initial-branch=main")
    (own / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (own / ".git" / "objects" / "info" / "alternates").write_text(f"{objects}\n")
    if not Repository(own, "").has(commit):
        raise SourceUnreadable(f"the repository at {PLACE} does not have the commit {commit}")
    variables = {"GIT_DIR": str(own / ".git"), "GIT_WORK_TREE": str(copied)}
    run_git(copied, "read-tree", commit, more=variables)
    paths = run_git(copied, "ls-files", "--others", "-z", more=variables).split(b"\0")
    untracked = [
        path
        for path in paths
        if path and not path.endswith((b"/", *_COMPILED)) and b"\n" not in path
    ]
    if not untracked:
        return commit
    links = {
        path: os.readlink(os.path.join(os.fsencode(copied), path))
        for path in untracked
        if _is_link(copied, path)
    }
    files = [path for path in untracked if path not in links]
    lines = b"".join(path + b"\n" for path in files)
    shas = run_git(
        copied, "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=lines, more=variables
    ).split()
    entries = [(_mode(copied, path), sha, path) for path, sha in zip(files, shas, strict=True)]
    for path, target in links.items():
        sha = run_git(copied, "hash-object", "-w", "--stdin", stdin=target, more=variables).strip()
        entries.append((b"120000", sha, path))
    rows = b"".join(b"%s %s\t%s\0" % entry for entry in entries)
    run_git(copied, "update-index", "-z", "--index-info", stdin=rows, more=variables)
    tree = run_git(copied, "write-tree", more=variables).decode().strip()
    return run_git(own, "commit-tree", tree, "-m", "Base").decode().strip()


def _is_link(folder: Path, path: bytes) -> bool:
    return stat.S_ISLNK(os.lstat(os.path.join(os.fsencode(folder), path)).st_mode)


def _mode(folder: Path, path: bytes) -> bytes:
    return (
        b"100755"
        if os.lstat(os.path.join(os.fsencode(folder), path)).st_mode & 0o100
        else b"100644"
    )
