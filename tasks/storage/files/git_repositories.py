"""Git repositories on this machine, read with the command `git`.

A repository may be bare, checked out, a `.bundle`, or a `.files.json` (list of a project's files).
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from schemas.errors import SourceUnreadable

FORMS = "bare, checked out, .bundle or .files.json"
"""Forms of a repository in a folder, for messages."""
_BUNDLE, _LISTING = ".bundle", ".files.json"
_DEEPEST = 3
_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Parley"), ("EMAIL", "parley@localhost"))
    },
    **{f"GIT_{who}_DATE": "2000-01-01T00:00:00 +0000" for who in ("AUTHOR", "COMMITTER")},
}


@dataclass(frozen=True)
class GitEntry:
    """File, link or folder of a commit."""

    mode: str
    kind: str
    """Kind of the object: `blob`, `tree`, or `commit` for a submodule."""
    sha: str
    path: str


def run_git(
    folder: Path, *arguments: str, stdin: bytes = b"", more: Mapping[str, str] | None = None
) -> bytes:
    """Return the output of a git command. Settings of the machine and the user have no effect.

    Raises:
        SourceUnreadable: the command failed.
    """
    process = _run(folder, *arguments, stdin=stdin, more=more)
    if process.returncode:
        message = process.stderr.decode(errors="replace").strip()
        raise SourceUnreadable(f"{folder}: git {arguments[0]} failed: {message[-300:]}")
    return process.stdout


def _run(
    folder: Path, *arguments: str, stdin: bytes = b"", more: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[bytes]":
    argv = (
        "git",
        "-c",
        "safe.directory=*",
        "-c",
        "core.quotePath=false",
        "-C",
        str(folder),
        *arguments,
    )
    try:
        process = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            env={**_ENVIRONMENT, **(more or {})},
            check=False,
        )
    except OSError as error:
        raise SourceUnreadable(f"git cannot be run ({error.strerror}). Install git") from error
    if process.returncode < 0:
        raise SourceUnreadable(
            f"{folder}: git {arguments[0]} was ended by signal {-process.returncode}"
        )
    return process


@dataclass(frozen=True)
class Repository:
    """Git repository on this machine."""

    path: Path
    name: str
    """Path of the repository below the searched folder, without an ending such as `.git`."""

    def has(self, commit: str) -> bool:
        """Return True if the repository has a commit.

        Raises:
            SourceUnreadable: git cannot be run.
        """
        return _run(self.path, "cat-file", "-e", f"{commit}^{{commit}}").returncode == 0

    def entries(self, commit: str) -> tuple[str, list[GitEntry]]:
        """Return the id of a commit's tree, and all files and folders in it."""
        tree = run_git(self.path, "rev-parse", f"{commit}^{{tree}}").decode().strip()
        listed = run_git(self.path, "ls-tree", "-r", "-t", "-z", "--full-tree", tree)
        return tree, [_entry(line) for line in listed.split(b"\0") if line]

    def blobs(self, wanted: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield blobs: (id, content).

        Raises:
            SourceUnreadable: a blob is missing, as in a shallow or partial clone.
        """
        data = run_git(
            self.path, "cat-file", "--batch", stdin="".join(f"{sha}\n" for sha in wanted).encode()
        )
        at = 0
        while at < len(data):
            end = data.index(b"\n", at)
            sha, *facts = data[at:end].decode().split(" ")
            if len(facts) < 2:
                raise SourceUnreadable(
                    f"{self.path}: object {sha} is missing. Use a complete clone"
                )
            size = int(facts[1])
            yield sha, data[end + 1 : end + 1 + size]
            at = end + 2 + size


def _entry(line: bytes) -> GitEntry:
    facts, _, path = line.partition(b"\t")
    mode, kind, sha = facts.decode().split(" ")
    return GitEntry(mode, kind, sha, path.decode("utf-8", "surrogateescape"))


class Repositories(ExitStack):
    """Repositories in and below some folders.

    Use it as a context manager. Git bundles and archived lists of files are unpacked into temporary
    folders, which are deleted at its end.

    Raises:
        SourceUnreadable: a folder does not exist, or contains no repository.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        super().__init__()
        self._repositories: list[Repository] = []
        self._of: dict[tuple[str, str], Repository | None] = {}
        try:
            for folder in folders:
                self._repositories += self._below(folder)
        except BaseException:
            self.close()
            raise

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all repositories."""
        return tuple(repository.name for repository in self._repositories)

    def with_commit(self, repo: str, commit: str) -> Repository | None:
        """Return the repository that has a commit; None if no repository has it.

        Repositories with a similar name are searched first.

        Args:
            repo: name of the repository in the dataset.
            commit: id of the commit.
        """
        if (repo, commit) not in self._of:
            short = re.sub(r"[^a-z0-9]+", "", repo.lower())
            ordered = sorted(
                self._repositories,
                key=lambda each: short not in re.sub(r"[^a-z0-9]+", "", each.name.lower()),
            )
            self._of[repo, commit] = next((each for each in ordered if each.has(commit)), None)
        return self._of[repo, commit]

    def _below(self, folder: Path) -> list[Repository]:
        if not folder.is_dir():
            raise SourceUnreadable(
                f"{folder} is not a folder. Name a folder that contains repositories ({FORMS})"
            )
        repositories = [
            Repository(self._opened(path), _name(path, folder))
            for path in _repositories(folder, _DEEPEST)
        ]
        if not repositories:
            raise SourceUnreadable(
                f"{folder} contains no repository. Name a folder with repositories in or below it "
                f"({FORMS})"
            )
        return repositories

    def _opened(self, path: Path) -> Path:
        if path.is_dir():
            return path
        place = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="parley-repository-")))
        if path.name.endswith(_BUNDLE):
            run_git(
                place, "clone", "--quiet", "--bare", str(path.absolute()), str(place / "bare.git")
            )
            return place / "bare.git"
        _make(place, path)
        return place


def _repositories(folder: Path, levels: int) -> Iterator[Path]:
    if (folder / ".git").exists() or (
        (folder / "HEAD").is_file() and (folder / "objects").is_dir()
    ):
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir() and levels:
            yield from _repositories(path, levels - 1)
        elif path.name.endswith((_BUNDLE, _LISTING)) and path.is_file():
            yield path


def _name(path: Path, folder: Path) -> str:
    inside = path.relative_to(folder).as_posix() if path != folder else path.absolute().as_posix()
    return re.sub(r"\.(git|bundle|files\.json)$", "", inside)


def _make(place: Path, listing: Path) -> None:
    """Make a repository of one commit from a list of files: `{path: [line, ...]}`."""
    try:
        make_repository(place, _texts(json.loads(listing.read_text(encoding="utf-8"))))
    except (OSError, ValueError) as error:
        raise SourceUnreadable(f"{listing} is no list of a project's files: {error}") from error


def make_repository(place: Path, files: Mapping[str, str]) -> None:
    """Make a repository of one commit. Equal files give equal commits on every machine.

    Args:
        place: empty folder for the repository.
        files: maps paths, which `require_paths` must accept, to texts.
    """
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    run_git(place, "init", "--quiet", "--template=", "--initial-branch=main")
    run_git(place, "add", "--all", "--force")
    run_git(place, "commit", "--quiet", "--message=Base")


def require_paths(names: Iterable[str]) -> None:
    """Require that paths stay below a folder, and that none belongs to git.

    A file such as `.gitattributes` could make git run a command.

    Raises:
        ValueError: a path is not allowed. The message contains the first one.
    """
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
            raise ValueError(f"{name!r} is no path below the project's folder")
        if any(part.lower().startswith(".git") for part in path.parts):
            raise ValueError(f"{name!r} is a file of git's own")


def _texts(listing: Any) -> dict[str, str]:
    """Map each path of a parsed `.files.json` to its text. Raises ValueError if it is invalid."""
    if not isinstance(listing, dict) or not listing:
        raise ValueError("it must be an object that has a list of lines for each path")
    require_paths(listing)
    for name, lines in listing.items():
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise ValueError(f"{name!r} has no list of lines")
    return {name: "".join(f"{line}\n" for line in lines) for name, lines in listing.items()}
