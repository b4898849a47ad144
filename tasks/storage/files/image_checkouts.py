"""Commits of repositories in Docker images, as trees for agents: what `checkouts.py` makes, and what was built beside it.

An image holds its repository at one place, with what its packages were built into there (extensions, `.egg-info`): without these
the project could not be imported. They belong to the tree's one commit. The image's own settings, hooks and filters are not
read: git works from a folder of its own, with the objects of the image's.
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
from tasks.storage.replaced_file import replace_file

PLACE = "/testbed"
_LAYOUT = 1
"""Raise it when the same image gives another tree."""
_COMPILED = (b".pyc", b".pyo")


@dataclass
class ImageCheckouts:
    """Makes trees of commits in images, each once for a home.

    Args:
        checkouts: where trees are made and known.
    """

    checkouts: Checkouts

    def tree(self, image: str, commit: str) -> str:
        """Digest of the commit's tree with what the image has built beside it.

        Args:
            image: pinned by digest.

        Raises:
            SourceUnreadable: its repository cannot be read, or does not have the commit.
            SandboxUnavailable: the image, or its folder, is not there.
        """
        record = self.checkouts.known / f"image-{content_id([image, commit, LAYOUT, _LAYOUT])}.json"
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
    """Return an instance's repository with the trees that its image has; the image must be on the daemon.

    Raises:
        ImageFault: the image's repository cannot be read, or the test patch does not apply to it.
        SandboxUnavailable: the image is not there.
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
    """Make a repository in `own` that shares the objects of a copied one; gives a commit of it with the files beside `commit`.

    Raises:
        SourceUnreadable: git cannot read it, or it does not have the commit.
    """
    objects = copied / ".git" / "objects"
    if not objects.is_dir():
        raise SourceUnreadable(f"there is no git repository at {PLACE}")
    (objects / "info" / "alternates").unlink(missing_ok=True)
    run_git(own, "init", "--quiet", "--template=", "--initial-branch=main")
    (own / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (own / ".git" / "objects" / "info" / "alternates").write_text(f"{objects}\n")
    if not Repository(own, "").holds(commit):
        raise SourceUnreadable(f"the repository at {PLACE} does not have the commit {commit}")
    at_work = {"GIT_DIR": str(own / ".git"), "GIT_WORK_TREE": str(copied)}
    run_git(copied, "read-tree", commit, more=at_work)
    listed = run_git(copied, "ls-files", "--others", "-z", more=at_work).split(b"\0")
    beside = [
        path
        for path in listed
        if path and not path.endswith((b"/", *_COMPILED)) and b"\n" not in path
    ]
    if not beside:
        return commit
    links = {
        path: os.readlink(os.path.join(os.fsencode(copied), path))
        for path in beside
        if _is_link(copied, path)
    }
    files = [path for path in beside if path not in links]
    named = b"".join(path + b"\n" for path in files)
    shas = run_git(
        copied, "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=named, more=at_work
    ).split()
    entries = [(_mode(copied, path), sha, path) for path, sha in zip(files, shas, strict=True)]
    for path, target in links.items():
        sha = run_git(copied, "hash-object", "-w", "--stdin", stdin=target, more=at_work).strip()
        entries.append((b"120000", sha, path))
    rows = b"".join(b"%s %s\t%s\0" % entry for entry in entries)
    run_git(copied, "update-index", "-z", "--index-info", stdin=rows, more=at_work)
    tree = run_git(copied, "write-tree", more=at_work).decode().strip()
    return run_git(own, "commit-tree", tree, "-m", "Base").decode().strip()


def _is_link(folder: Path, path: bytes) -> bool:
    return stat.S_ISLNK(os.lstat(os.path.join(os.fsencode(folder), path)).st_mode)


def _mode(folder: Path, path: bytes) -> bytes:
    return (
        b"100755"
        if os.lstat(os.path.join(os.fsencode(folder), path)).st_mode & 0o100
        else b"100644"
    )
