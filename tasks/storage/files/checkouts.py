"""Commits of repositories as trees for agents: their files, and a history of this one commit.

A tree contains nothing else of the repository: no other commit, no branch, tag, remote or log, and
no object that the commit's files do not need. So an agent cannot find the later fix in it.
"""

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.workspace.interface import Entry, TreeBounds
from schemas.errors import CorruptRows, SourceUnreadable
from tasks.storage.files.git_repositories import GitEntry, Repository, run_git
from tasks.storage.files.tree_changes import FILE, FOLDER, LINK
from tasks.storage.files.trees import TreeStore
from tasks.storage.new_folder import replace_file

LAYOUT = 1
"""Version of the trees' layout. Raise it if a change gives a commit another tree."""
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
        record = self.records / f"{commit}-{LAYOUT}.json"
        try:
            digest: str = json.loads(record.read_text())["tree"]
            self.trees.get(digest)
        except (OSError, ValueError, KeyError, CorruptRows):
            digest = self._make(repository, commit)
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
