"""Finds the files that a source's patterns mean, and takes files out of archives."""

import fnmatch
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from schemas.errors import DataUnavailable
from tasks.benchmarks.public_data import WHOLE_FOLDER


def is_pattern(path: str) -> bool:
    """Whether a source's path stands for several files."""
    return "*" in path


def expand(files: Mapping[str, str], known: Iterable[str], where: str) -> dict[str, str]:
    """Return place -> path of the files that a source means. A pattern may match nothing; a path must be there.

    Args:
        files: path or pattern -> place.
        known: paths that the source has.
        where: the source, for the error.

    Raises:
        DataUnavailable: a path is not there, or nothing is.
    """
    paths, found = sorted(known), dict[str, str]()
    for pattern, place in files.items():
        if not is_pattern(pattern):
            if pattern not in paths:
                raise DataUnavailable(f"{where} has no file {pattern}")
            found[place] = pattern
        for path in paths if is_pattern(pattern) else ():
            if (name := _name_below(pattern, path)) is not None:
                found[str(PurePosixPath(place) / name)] = path
    if not found:
        raise DataUnavailable(f"{where} has no file {', '.join(files)}")
    return found


def matches_place(dataset_places: Iterable[str], name: str) -> bool:
    """Whether a file of this name, packed or not, may be one of a dataset's places or patterns."""
    names = [PurePosixPath(place).name for place in dataset_places]
    return any(
        fnmatch.fnmatchcase(name.removesuffix(".gz"), one.removesuffix(".gz")) for one in names
    )


def _name_below(pattern: str, path: str) -> str | None:
    """Path of a file in the folder that takes the pattern's files; None where the pattern does not mean the file."""
    if pattern.endswith(WHOLE_FOLDER):
        above = pattern.removesuffix("**")
        return path.removeprefix(above) if path.startswith(above) else None
    same_depth = path.count("/") == pattern.count("/")
    return path.rpartition("/")[2] if same_depth and fnmatch.fnmatchcase(path, pattern) else None


def unpack(archive: Path, files: Mapping[str, str], into: Path, where: str) -> None:
    """Take the wanted files out of a zip or tar file. Members go to their places and nowhere else.

    Raises:
        DataUnavailable: a member is not there, or the archive is damaged.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                for place, member in expand(files, packed.namelist(), where).items():
                    with packed.open(member) as stream, _opened(into / place) as out:
                        shutil.copyfileobj(stream, out)
            return
        with tarfile.open(archive) as packed:
            members = {one.name.partition("/")[2]: one for one in packed if one.isfile()}
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
    """Yield (place, path) of the files in a folder, but for hidden ones, by place."""
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in place.parts):
            yield place.as_posix(), path
