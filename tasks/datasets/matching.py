"""Match files against a source's patterns and extract files from archives."""

import fnmatch
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from schemas.errors import DataUnavailable
from tasks.datasets.public_data import WHOLE_FOLDER


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
