"""Repositories on this machine, read by git: bare, checked out, a `.bundle`, or `.files.json`, a list of a project's files."""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from schemas.errors import SourceUnreadable

FORMS = "bare, checked out, .bundle or .files.json"
"""How a repository may lie in a folder."""
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
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class GitEntry:
    """A file, link or folder of a commit."""

    mode: str
    kind: str
    """blob, tree or commit (of a submodule)."""
    sha: str
    path: str


def run_git(
    folder: Path, *arguments: str, stdin: bytes = b"", more: Mapping[str, str] | None = None
) -> bytes:
    """What a git command prints; the machine's and the user's settings do not count.

    Raises:
        SourceUnreadable: it failed.
    """
    done = _ran(folder, *arguments, stdin=stdin, more=more)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise SourceUnreadable(f"{folder}: git {arguments[0]} failed: {said[-300:]}")
    return done.stdout


def _ran(
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
        done = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            env={**_ENVIRONMENT, **(more or {})},
            check=False,
        )
    except OSError as error:
        raise SourceUnreadable(f"git cannot be run ({error.strerror}): install it") from error
    if done.returncode < 0:
        raise SourceUnreadable(
            f"{folder}: git {arguments[0]} was ended by signal {-done.returncode}"
        )
    return done


@dataclass(frozen=True)
class Repository:
    """One repository."""

    path: Path
    name: str
    """Its path below the folder that was given, without `.git` and the like."""

    def holds(self, commit: str) -> bool:
        """Whether it has this commit.

        Raises:
            SourceUnreadable: git cannot be run.
        """
        return _ran(self.path, "cat-file", "-e", f"{commit}^{{commit}}").returncode == 0

    def entries(self, commit: str) -> tuple[str, list[GitEntry]]:
        """Id of a commit's tree, and all files and folders in it."""
        tree = run_git(self.path, "rev-parse", f"{commit}^{{tree}}").decode().strip()
        listed = run_git(self.path, "ls-tree", "-r", "-t", "-z", "--full-tree", tree)
        return tree, [_entry(line) for line in listed.split(b"\0") if line]

    def blobs(self, wanted: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Content of blobs by id.

        Raises:
            SourceUnreadable: one is not there (a shallow or partial copy).
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
                    f"{self.path}: object {sha} is missing; the copy is not whole"
                )
            size = int(facts[1])
            yield sha, data[end + 1 : end + 1 + size]
            at = end + 2 + size


def _entry(line: bytes) -> GitEntry:
    facts, _, path = line.partition(b"\t")
    mode, kind, sha = facts.decode().split(" ")
    return GitEntry(mode, kind, sha, path.decode("utf-8", "surrogateescape"))


class Repositories:
    """The repositories in and below some folders. Open as a context: bundles and lists of files are unpacked for its time.

    Raises:
        SourceUnreadable: a folder that is not there, or holds no repository.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._stack = ExitStack()
        self._found: list[Repository] = []
        self._of: dict[tuple[str, str], Repository | None] = {}
        try:
            for folder in folders:
                self._found += self._below(folder)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all."""
        return tuple(found.name for found in self._found)

    def holding(self, repo: str, commit: str) -> Repository | None:
        """The repository that has a commit; one with a fitting name is looked at first. None where no one has it."""
        if (repo, commit) not in self._of:
            short = re.sub(r"[^a-z0-9]+", "", repo.lower())
            ordered = sorted(
                self._found,
                key=lambda one: short not in re.sub(r"[^a-z0-9]+", "", one.name.lower()),
            )
            self._of[repo, commit] = next((one for one in ordered if one.holds(commit)), None)
        return self._of[repo, commit]

    def _below(self, folder: Path) -> list[Repository]:
        if not folder.is_dir():
            raise SourceUnreadable(
                f"{folder} is not a folder: give one that holds repositories ({FORMS})"
            )
        found = [
            Repository(self._opened(path), _name(path, folder))
            for path in _repositories(folder, _DEEPEST)
        ]
        if not found:
            raise SourceUnreadable(
                f"{folder} holds no repository: give one with repositories in or below it, each {FORMS}"
            )
        return found

    def _opened(self, path: Path) -> Path:
        if path.is_dir():
            return path
        place = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-repository-"))
        )
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
    """A repository of one commit from a list of files: `{path: [line, ...]}`."""
    try:
        make_repository(place, _listed(json.loads(listing.read_text(encoding="utf-8"))))
    except (OSError, ValueError) as error:
        raise SourceUnreadable(f"{listing}: no list of a project's files ({error})") from error


def make_repository(place: Path, files: Mapping[str, str]) -> None:
    """Make a repository of one commit. The same files give the same commit everywhere.

    Args:
        place: an empty folder.
        files: path -> text, with paths that `require_paths` accepts.
    """
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    run_git(place, "init", "--quiet", "--template=", "--initial-branch=main")
    run_git(place, "add", "--all", "--force")
    run_git(place, "commit", "--quiet", "--message=Base")


def require_paths(names: Iterable[str]) -> None:
    """Require that paths stay below a folder and none is git's own: `.gitattributes` would have git run a command.

    Raises:
        ValueError: names the first path that does not.
    """
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
            raise ValueError(f"{name!r} is no path below the project's folder")
        if any(part.lower().startswith(".git") for part in path.parts):
            raise ValueError(f"{name!r} is a file of git's own")


def _listed(given: Any) -> dict[str, str]:
    """Path -> text of a list of lines for each path. Raises ValueError: it is no such list."""
    if not isinstance(given, dict) or not given:
        raise ValueError("it must be an object that has a list of lines for each path")
    require_paths(given)
    for name, lines in given.items():
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise ValueError(f"{name!r} has no list of lines")
    return {name: "".join(f"{line}\n" for line in lines) for name, lines in given.items()}
