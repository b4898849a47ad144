"""Commits of repositories as trees for agents: their files, and a history of this one commit.

A tree contains nothing else of the repository: no other commit, no branch, tag, remote or log, and
no object that the commit's files do not need. So an agent cannot find the later fix in it.

The tree of a commit in a Docker image also contains the files that the image's build added
(extensions, `.egg-info`), without which the project could not be imported. All belong to the tree's
one commit. The image's own settings, hooks and filters are not read: git works in a separate folder
with the image's objects.
"""

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.backends.docker.backend import DockerSandbox
from sandbox.workspace.interface import Entry, TreeBounds, image_of
from schemas.content_id import content_id
from schemas.errors import CorruptRows, ImageFault, SourceUnreadable
from schemas.problem import RepoSnapshot
from tasks.storage.files.git_repositories import GitEntry, Repository, run_git
from tasks.storage.files.tree_changes import FILE, FOLDER, LINK
from tasks.storage.files.trees import TreeStore
from tasks.storage.new_folder import replace_file

LAYOUT = 1
"""Version of the trees' layout. Raise it if a change gives a commit another tree."""
_IMAGE_LAYOUT = 1
"""Version of the layout of images' trees. Raise it if a change gives an image another tree."""
PLACE = "/testbed"
_COMPILED = (b".pyc", b".pyo")
_PACKED = (
    "--window=0",
    "--no-reuse-delta",
    "--no-reuse-object",
    "--threads=1",
    "--compression=1",
    "--quiet",
)
_SETTINGS = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = false
[user]
\tname = agent
\temail = agent@localhost
[gc]
\tauto = 0
"""
_BOUNDS = TreeBounds(total_mb=4096, file_mb=1024, files=500_000)


@dataclass
class Checkouts:
    """Trees of commits. Each tree is made once for a home.

    Args:
        trees: store of the trees.
        records: folder with a file for each commit, which contains the digest of its tree.
    """

    trees: TreeStore
    records: Path
    _blobs: dict[str, str] = field(default_factory=dict[str, str])

    def tree(self, repository: Repository, commit: str) -> str:
        """Return the digest of a commit's tree, which is made if the store lacks it.

        Raises:
            SourceUnreadable: git cannot read the commit.
        """
        return self._recorded(f"{commit}-{LAYOUT}", lambda: self._make(repository, commit))

    def tree_of_image(self, image: str, commit: str) -> str:
        """Return the digest of a commit's tree, with the files that the image built beside it.

        Args:
            image: image, pinned by digest.
            commit: id of the commit.

        Raises:
            SourceUnreadable: the image's repository cannot be read, or lacks the commit.
            SandboxUnavailable: the image or its folder is missing.
        """

        def make() -> str:
            with tempfile.TemporaryDirectory(prefix="parley-image-") as name:
                copied, own = Path(name) / "copied", Path(name) / "own"
                copied.mkdir()
                own.mkdir()
                DockerSandbox(image=image).copy_folder(PLACE, copied)
                return self.tree(Repository(own, image), with_built_files(copied, own, commit))

        name = content_id([image, commit, LAYOUT, _IMAGE_LAYOUT])
        return self._recorded(f"image-{name}", make)

    def _recorded(self, name: str, make: Callable[[], str]) -> str:
        record = self.records / f"{name}.json"
        try:
            digest: str = json.loads(record.read_text())["tree"]
            self.trees.get(digest)
        except (OSError, ValueError, KeyError, CorruptRows):
            digest = make()
            replace_file(record, json.dumps({"tree": digest}).encode())
        return digest

    def _make(self, repository: Repository, commit: str) -> str:
        tree, entries = repository.entries(commit)
        wanted = {
            entry.sha for entry in entries if entry.kind == "blob" and entry.sha not in self._blobs
        }
        links: dict[str, str] = {}
        for sha, content in repository.blobs(sorted(wanted)) if wanted else ():
            self._blobs[sha] = self.trees.add(content)
        for entry in entries:
            if entry.mode == "120000":
                links[entry.sha] = self.trees.get(self._blobs[entry.sha]).decode(
                    "utf-8", "surrogateescape"
                )
        files = self.trees.add_row({"entries": _rows(self.trees, entries, self._blobs, links)})
        with tempfile.TemporaryDirectory(prefix="parley-checkout-") as folder:
            _write_history(repository, tree, entries, Path(folder))
            return self.trees.joined(files, self.trees.keep(Path(folder), bounds=_BOUNDS).digest)

    def patched(self, tree: str, patch: str) -> str:
        """Return the digest of a tree after a patch of the dataset.

        Raises:
            SourceUnreadable: the patch does not apply.
        """
        if not patch.strip():
            return tree
        with tempfile.TemporaryDirectory(prefix="parley-patch-") as name:
            folder = Path(name)
            text = (patch if patch.endswith("\n") else f"{patch}\n").encode(
                "utf-8", "surrogatepass"
            )
            touched = _touched(text)
            for path, entry in self.trees.files(tree, touched).items():
                place = folder / path
                place.parent.mkdir(parents=True, exist_ok=True)
                if entry.is_link:
                    place.symlink_to(entry.what)
                else:
                    place.write_bytes(self.trees.get(entry.what))
                    place.chmod(entry.mode)
            run_git(folder, "apply", "-", stdin=text)
            return self.trees.with_files(
                tree, {path: self._entry(folder / path) for path in touched}
            )

    def _entry(self, path: Path) -> Entry | None:
        if path.is_symlink():
            return Entry(0o777, str(path.readlink()), is_link=True)
        if not path.is_file():
            return None
        return Entry(
            0o755 if path.stat().st_mode & 0o100 else 0o644, self.trees.add(path.read_bytes())
        )


def _touched(patch: bytes) -> tuple[str, ...]:
    """Return all paths that a patch reads or writes, including old names of renamed files."""
    paths: set[str] = set()
    for line in patch.decode("utf-8", "surrogateescape").splitlines():
        for prefix in ("--- a/", "+++ b/", "rename from ", "rename to ", "copy from ", "copy to "):
            if line.startswith(prefix):
                paths.add(line.removeprefix(prefix).split("\t")[0])
        if line.startswith("diff --git a/") and " b/" in line:
            old, _, new = line.removeprefix("diff --git a/").partition(" b/")
            paths |= {old, new}
    if not paths:
        raise SourceUnreadable("the patch names no file")
    return tuple(sorted(paths))


def _rows(
    trees: TreeStore, entries: Sequence[GitEntry], blobs: dict[str, str], links: dict[str, str]
) -> list[Any]:
    """Return the list of the root folder's entries, after storing all folders below it."""
    below: dict[str, list[Any]] = {"": []}
    for entry in entries:
        folder, _, name = entry.path.rpartition("/")
        if entry.kind == "tree":
            below.setdefault(entry.path, [])
            below.setdefault(folder, []).append([name, FOLDER, 0o755, entry.path])
        elif entry.mode == "120000":
            below.setdefault(folder, []).append([name, LINK, 0o777, links[entry.sha]])
        elif entry.kind == "blob":
            below.setdefault(folder, []).append(
                [name, FILE, 0o755 if entry.mode == "100755" else 0o644, blobs[entry.sha]]
            )

    def listed(path: str) -> list[Any]:
        rows = [
            [name, kind, mode, trees.add_row({"entries": listed(what)})]
            if kind == FOLDER
            else [name, kind, mode, what]
            for name, kind, mode, what in below[path]
        ]
        return sorted(rows, key=lambda row: row[0])

    return listed("")


def _write_history(
    repository: Repository, tree: str, entries: Sequence[GitEntry], folder: Path
) -> None:
    """Create `folder/.git` with one commit of the tree."""
    run_git(folder, "init", "--quiet", "--template=", "--initial-branch=main")
    shas = dict.fromkeys((tree, *(entry.sha for entry in entries if entry.kind != "commit")))
    pack = run_git(
        repository.path,
        "pack-objects",
        *_PACKED,
        "--stdout",
        stdin="".join(f"{sha}\n" for sha in shas).encode(),
    )
    run_git(folder, "-c", "pack.writeReverseIndex=false", "index-pack", "--stdin", stdin=pack)
    commit = run_git(folder, "commit-tree", tree, "-m", "Base").decode().strip()
    run_git(folder, "update-ref", "refs/heads/main", commit)
    run_git(folder, "read-tree", commit)
    shutil.rmtree(folder / ".git" / "logs", ignore_errors=True)
    (folder / ".git" / "config").write_text(_SETTINGS)
    for pack_file in folder.glob(".git/objects/pack/*"):
        pack_file.chmod(0o644)


def with_trees(repository: RepoSnapshot, checkouts: Checkouts) -> RepoSnapshot:
    """Return a task's repository with the digests of its trees, made from its Docker image.

    Raises:
        ImageFault: the image's repository cannot be read, or the test patch does not apply to it.
        SandboxUnavailable: the daemon does not have the image.
    """
    image = image_of(repository.environment)
    try:
        tree = checkouts.tree_of_image(image, repository.base_commit)
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
