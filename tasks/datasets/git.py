"""Fetch files of given commits of a public git repository; match and extract fetched files.

Mirrors and proxies come from git's own settings. Other commits are not fetched.

Files are matched against a source's patterns, and extracted from archives.
"""

import fnmatch
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from schemas.errors import DataUnavailable
from tasks.datasets.public_data import WHOLE_FOLDER, GitSource

_REPOSITORY = ".repository"
_LIMIT_S = 3600.0
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_NAMED_COMMIT = re.compile(r"([0-9a-f]{40}):(.+)")


def fetch(
    source: GitSource, into: Path, report: Callable[[str], None], environ: Mapping[str, str]
) -> str:
    """Write the source's files into a folder and return the commit.

    Objects from an earlier call are reused. If the server supports filters, only the wanted files
    are transferred.

    Raises:
        DataUnavailable: git is not installed, or the repository, commit or file does not exist.
    """
    repository = _Repository(into / _REPOSITORY, source.git, source.address, environ)
    files_by_commit = {commit: dict[str, str]() for commit in (source.commit,)}
    for path, place in (
        {source.archive: _REPOSITORY + "-archive"} if source.archive else source.files
    ).items():
        named = _NAMED_COMMIT.fullmatch(path)
        commit, path = named.groups() if named else (source.commit, path)
        files_by_commit.setdefault(commit, {})[path] = place
    report(f"{', '.join(source.files)} from {source.address}")
    repository.fetch(files_by_commit)
    for commit, files in files_by_commit.items():
        if not files:
            continue
        blobs = repository.blobs(commit)
        paths = expand(files, blobs, source.address)
        repository.fetch_blobs(commit, [blobs[path] for path in paths.values()])
        repository.write({into / place: blobs[path] for place, path in paths.items()})
    if source.archive:
        unpack(into / f"{_REPOSITORY}-archive", source.files, into, source.address)
    return source.commit


def fetch_commit(url: str, commit: str, into: Path, environ: Mapping[str, str]) -> None:
    """Create a bare repository with all files of one commit and no other commit.

    Raises:
        DataUnavailable: git is not installed, or the repository or commit does not exist.
    """
    _Repository(into, url, f"git {url} @ {commit}", environ, is_partial=False).fetch([commit])


class _Repository:
    """Bare repository with as few objects as possible.

    Args:
        folder: Folder of the repository.
        url: Address of the remote repository.
        where: Name of the repository in error messages.
        environ: Environment variables of git.
        is_partial: True if files are fetched individually, provided the server supports filters.
    """

    def __init__(
        self,
        folder: Path,
        url: str,
        where: str,
        environ: Mapping[str, str],
        *,
        is_partial: bool = True,
    ) -> None:
        self._folder, self._where, self._is_partial = folder, where, is_partial
        self._environ = {**environ, "GIT_TERMINAL_PROMPT": "0", "GIT_DIR": str(folder)}
        if not (folder / "HEAD").exists():
            folder.mkdir(parents=True, exist_ok=True)
            self._git("init", "--quiet", "--bare")
        self._git("config", "remote.origin.url", url)
        if is_partial:
            self._git("config", "remote.origin.promisor", "true")
            self._git("config", "remote.origin.partialclonefilter", "blob:none")

    def fetch(self, commits: Iterable[str]) -> None:
        """Fetch commits and their trees, with their files only if the server has no filters."""
        lacking = [commit for commit in commits if not self._has(commit)]
        if lacking:
            left_out = ("--filter=blob:none",) if self._is_partial else ()
            self._git("fetch", "--quiet", "--no-tags", "--depth=1", *left_out, "origin", *lacking)

    def blobs(self, commit: str) -> dict[str, str]:
        """Return the object id of each file of a commit, by path."""
        listed = self._git("ls-tree", "-r", "-z", commit).decode("utf-8", "surrogateescape")
        rows = (line.partition("\t") for line in listed.split("\0") if line)
        return {path: about.split()[2] for about, _, path in rows if about.split()[1] == "blob"}

    def fetch_blobs(self, commit: str, blobs: Iterable[str]) -> None:
        """Fetch the missing files in a single request."""
        listed = self._git(
            "rev-list", "--objects", "--missing=print", "--no-object-names", commit
        ).decode("ascii", "replace")
        missing = {line[1:] for line in listed.splitlines() if line.startswith("?")} & set(blobs)
        if missing:
            object_ids = "".join(f"{name}\n" for name in sorted(missing)).encode()
            options = (
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                "--recurse-submodules=no",
                "--filter=blob:none",
            )
            self._git(
                "-c",
                "fetch.negotiationAlgorithm=noop",
                "fetch",
                *options,
                "--stdin",
                "origin",
                input_bytes=object_ids,
            )

    def write(self, blobs: Mapping[Path, str]) -> None:
        """Write each object's content to its path. git verifies the digests.

        Raises:
            DataUnavailable: The content of a file is stored in Git LFS.
        """
        object_ids = "".join(f"{blob}\n" for blob in blobs.values()).encode()
        with tempfile.TemporaryFile(dir=self._folder) as contents:
            self._git("cat-file", "--batch", input_bytes=object_ids, out=contents.fileno())
            contents.seek(0)
            for path in blobs:
                _, _, size = contents.readline().decode("ascii").split()
                content = contents.read(int(size))
                contents.readline()
                if content.startswith(_LFS_POINTER):
                    raise DataUnavailable(
                        f"{self._where}: the content of {path.name} is in Git LFS, "
                        "not in the repository"
                    )
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    def _has(self, commit: str) -> bool:
        try:
            self._git("rev-list", "--objects", "--missing=print", "-n1", commit)
        except DataUnavailable:
            return False
        return True

    def _git(
        self, *arguments: str, input_bytes: bytes | None = None, out: int = subprocess.PIPE
    ) -> bytes:
        command = ("git", *arguments)
        try:
            result = subprocess.run(
                command,
                input=input_bytes,
                stdout=out,
                stderr=subprocess.PIPE,
                env=self._environ,
                timeout=_LIMIT_S,
                check=True,
            )
        except FileNotFoundError:
            raise DataUnavailable(f"{self._where}: git is not installed") from None
        except subprocess.CalledProcessError as error:
            lines = error.stderr.decode(errors="replace").strip().splitlines() or [
                f"exit code {error.returncode}"
            ]
            raise DataUnavailable(f"{self._where}: {lines[-1]}") from error
        except subprocess.TimeoutExpired:
            raise DataUnavailable(
                f"{self._where}: git {arguments[0]} did not end within {_LIMIT_S:.0f} s"
            ) from None
        return result.stdout or b""


def is_pattern(path: str) -> bool:
    """Return True if a source's path can match several files."""
    return "*" in path


def expand(files: Mapping[str, str], available: Iterable[str], where: str) -> dict[str, str]:
    """Return the source path of each destination path that the patterns select.

    A pattern may match no file, but a plain path must exist.

    Args:
        files: Destination path or folder by source path or pattern.
        available: Paths that the source has.
        where: Name of the source in error messages.

    Raises:
        DataUnavailable: A plain path does not exist, or nothing matches.
    """
    paths, matches = sorted(available), dict[str, str]()
    for pattern, place in files.items():
        if not is_pattern(pattern):
            if pattern not in paths:
                raise DataUnavailable(f"{where} has no file {pattern}")
            matches[place] = pattern
        for path in paths if is_pattern(pattern) else ():
            if (name := _name_below(pattern, path)) is not None:
                matches[str(PurePosixPath(place) / name)] = path
    if not matches:
        raise DataUnavailable(f"{where} has no file {', '.join(files)}")
    return matches


def matches_place(dataset_places: Iterable[str], name: str) -> bool:
    """Return True if a file name, compressed or not, matches one of a dataset's paths."""
    patterns = [PurePosixPath(place).name for place in dataset_places]
    return any(
        fnmatch.fnmatchcase(name.removesuffix(".gz"), pattern.removesuffix(".gz"))
        for pattern in patterns
    )


def _name_below(pattern: str, path: str) -> str | None:
    """Return the file's path in the destination folder, or None if the pattern excludes it."""
    if pattern.endswith(WHOLE_FOLDER):
        above = pattern.removesuffix("**")
        return path.removeprefix(above) if path.startswith(above) else None
    same_depth = path.count("/") == pattern.count("/")
    return path.rpartition("/")[2] if same_depth and fnmatch.fnmatchcase(path, pattern) else None


def unpack(archive: Path, files: Mapping[str, str], into: Path, where: str) -> None:
    """Extract the selected files of a zip or tar file to their destinations and nowhere else.

    Raises:
        DataUnavailable: A member is missing, or the archive is damaged.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                for place, member in expand(files, packed.namelist(), where).items():
                    with packed.open(member) as stream, _opened(into / place) as out:
                        shutil.copyfileobj(stream, out)
            return
        with tarfile.open(archive) as packed:
            members = {
                member.name.partition("/")[2]: member for member in packed if member.isfile()
            }
            for place, member in expand(files, members, where).items():
                stream = packed.extractfile(members[member])
                assert stream is not None
                with stream, _opened(into / place) as out:
                    shutil.copyfileobj(stream, out)
    except (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, zlib.error) as error:
        raise DataUnavailable(
            f"{where}: {archive.name} cannot be unpacked ({type(error).__name__}: {error})"
        ) from error


def _opened(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb")


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the relative and full path of each file in a folder, sorted, without hidden files."""
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in place.parts):
            yield place.as_posix(), path
