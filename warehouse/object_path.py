"""Paths in an object store (S3, Google Cloud Storage, Azure), reached through fsspec.

They replace a `Path` of the lake, and offer the methods that the lake calls. A write of an object
is atomic, and all later listings show it: these stores guarantee both. There are no folders; a
folder is a prefix of objects' names.
"""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from schemas.errors import ConfigError, ServerUnavailable

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

    _PathLike = Path
else:
    _PathLike = object

PACKAGE_OF = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss"), "adlfs"),
    "memory": "fsspec",
}
"""URL scheme of a store -> package that reaches it. `memory` exists in one process, for tests."""

_AT_ONCE = 64


@dataclass(frozen=True)
class ObjectStat:
    """Status of an object. `st_ino` differs whenever the content differs."""

    st_size: int
    st_mtime_ns: int
    st_ino: int

    @property
    def st_mtime(self) -> float:
        """Return the modification time in seconds since the epoch."""
        return self.st_mtime_ns / 1e9


class ObjectPath(_PathLike):
    """Path of an object in a store. Equal by its URL; immutable.

    Type checkers see a `Path`, so that the lake has one type for its paths. It offers less than a
    `Path`: the methods take what the lake passes, and `override` is ignored where that is narrower
    than `Path`'s own.

    Args:
        info: what a listing says about the object, so that no other request is needed.
    """

    __slots__ = ("_fs", "_info", "_key")

    def __init__(
        self, fs: "AbstractFileSystem", key: str, info: Mapping[str, Any] | None = None
    ) -> None:
        self._fs: Any = fs  # The return types of fsspec's methods depend on their arguments.
        self._key, self._info = key.rstrip("/"), info

    def __str__(self) -> str:
        return str(self._fs.unstrip_protocol(self._key))

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and str(self) == str(other)

    def __lt__(self, other: "ObjectPath") -> bool:  # type: ignore[override]
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __truediv__(self, below: "str | os.PathLike[str]") -> "ObjectPath":  # type: ignore[override]
        return ObjectPath(self._fs, f"{self._key}/{below}")

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self._pure.name

    @property
    def stem(self) -> str:
        """Return the last part without its suffix."""
        return self._pure.stem

    @property
    def suffix(self) -> str:
        """Return the suffix of the last part, with the dot."""
        return self._pure.suffix

    @property
    def parent(self) -> "ObjectPath":  # type: ignore[override]
        """Return the folder of the path."""
        return ObjectPath(self._fs, str(self._pure.parent))

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self._key)

    def relative_to(self, above: "ObjectPath") -> PurePosixPath:  # type: ignore[override]
        """Return the part of this path that is below `above`."""
        return self._pure.relative_to(above._pure)

    def exists(self) -> bool:  # type: ignore[override]
        """Return whether an object has exactly this name."""
        with self._request():
            return bool(self._fs.isfile(self._key))

    def is_dir(self) -> bool:  # type: ignore[override]
        """Return whether any object's name begins with this path."""
        with self._request():
            return bool(self._fs.isdir(self._key))

    def stat(self) -> ObjectStat:  # type: ignore[override]
        """Return the status of the object, from its listing if there was one.

        Raises:
            FileNotFoundError: there is no such object.
        """
        with self._request():
            return _stat(self._info or self._fs.info(self._key))

    def rglob(self, pattern: str) -> "Iterator[ObjectPath]":  # type: ignore[override]
        """Return all objects below the path whose last part matches, in one listing."""
        with self._request():
            infos = self._fs.find(self._key, detail=True)
        for key, info in infos.items():
            if key != self._key and fnmatchcase(key.rsplit("/", 1)[-1], pattern):
                yield ObjectPath(self._fs, key, info)

    def glob(self, pattern: str) -> "Iterator[ObjectPath]":  # type: ignore[override]
        """Return the objects directly below the path whose name matches."""
        return (path for path in self.iterdir() if fnmatchcase(path.name, pattern))

    def iterdir(self) -> "Iterator[ObjectPath]":  # type: ignore[override]
        """Return the objects directly below the path."""
        with self._request():
            try:
                infos = self._fs.ls(self._key, detail=True)
            except FileNotFoundError:
                infos = []
        return (
            ObjectPath(self._fs, info["name"], info) for info in infos if info["type"] == "file"
        )

    def open(self, mode: str = "rb") -> BinaryIO:  # type: ignore[override]
        """Open the object's content, fetched completely.

        Parquet is read from both ends, and a request takes longer than the bytes.
        """
        return io.BytesIO(self.read_bytes())

    def read_bytes(self) -> bytes:
        """Return the object's content.

        Raises:
            FileNotFoundError: there is no such object.
        """
        with self._request():
            return bytes(self._fs.cat_file(self._key))

    def read_each(self, paths: "Sequence[ObjectPath]") -> "Iterator[tuple[ObjectPath, bytes]]":
        """Yield objects of this store with their contents.

        Many objects are fetched concurrently. Objects removed in the meantime are skipped.
        """
        for start in range(0, len(paths), _AT_ONCE):
            batch = paths[start : start + _AT_ONCE]
            with self._request():
                contents = self._fs.cat([path._key for path in batch], on_error="return")
                for path in batch:
                    content = contents[path._key]
                    if isinstance(content, FileNotFoundError):
                        continue  # Removed since it was listed.
                    if isinstance(content, Exception):
                        raise content
                    yield path, content

    def remove_below(self) -> None:
        """Remove all objects below the path."""
        with self._request(), suppress(FileNotFoundError):
            self._fs.rm(self._key, recursive=True)

    def write_bytes(self, data: "bytes | memoryview") -> int:  # type: ignore[override]
        """Create the object, or replace it atomically."""
        with self._request():
            try:
                self._fs.pipe_file(self._key, bytes(data))
            except FileNotFoundError as error:
                raise ServerUnavailable(
                    f"{self} cannot be written: {error}. Make the bucket first"
                ) from error
        return len(data)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object.

        Raises:
            FileNotFoundError: there is no such object, in a store that reports it.
        """
        with self._request():
            try:
                self._fs.rm_file(self._key)
            except (FileNotFoundError, KeyError):
                if not missing_ok:
                    raise FileNotFoundError(str(self)) from None

    def replace(self, target: Path) -> Path:  # type: ignore[override]
        """Move the object to a file of this machine."""
        target.write_bytes(self.read_bytes())
        self.unlink(missing_ok=True)
        return target

    def mkdir(self, *_: object, **__: object) -> None:
        """Do nothing: a store has no folders."""

    def rmdir(self) -> None:
        """Do nothing: a store has no folders."""

    @contextmanager
    def _request(self) -> Iterator[None]:
        """Raise ServerUnavailable if the store does not answer, or refuses.

        A missing object is no fault.
        """
        try:
            yield
        except (FileNotFoundError, ServerUnavailable):
            raise
        except Exception as error:  # noqa: BLE001 - errors differ between packages
            raise ServerUnavailable(_no_answer(str(self), error)) from None


def _no_answer(url: str, error: Exception) -> str:
    message = " ".join(str(error).split())[:300]
    return (
        f"request to {url} failed ({type(error).__name__}: {message}). Check the bucket's name,"
        " the keys and the endpoint. fsspec reads them from FSSPEC_S3_…, ~/.config/fsspec, or"
        " AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL for s3. The same command"
        " then resumes"
    )


@cache
def object_store(url: str) -> ObjectPath:
    """Return the path of a URL, after the store has answered once.

    Raises:
        ConfigError: Parley cannot use this kind of store, its package is missing, or there is no
            such bucket.
        ServerUnavailable: the store does not answer.
    """
    scheme = url.split("://", 1)[0]
    if scheme not in PACKAGE_OF:
        raise ConfigError(
            f"PARLEY_LAKE={url!r}: a lake lies in a folder, or in an object store "
            f"({', '.join(PACKAGE_OF)}), which shows a file"
            " whole or not at all. Mount other places, and give the folder"
        )
    from fsspec.core import url_to_fs

    try:
        fs, key = url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        raise ConfigError(
            f"PARLEY_LAKE={url!r} needs the package {PACKAGE_OF[scheme]} ({error}): pip "
            f"install {PACKAGE_OF[scheme]}, or"
            " 'parley-eval[cluster]' for s3"
        ) from None
    except ValueError as error:
        raise ConfigError(f"PARLEY_LAKE={url!r} is no URL of a store: {error}") from None
    place = ObjectPath(fs, key)
    if not key.strip("/"):
        raise ConfigError(f"PARLEY_LAKE={url!r} names no bucket: write {scheme}://BUCKET/PREFIX")
    with place._request(), suppress(FileNotFoundError, PermissionError):
        fs.ls(key)
        return place
    bucket = place._pure.parts[0]
    try:
        # Keys that may read only the prefix cannot list the bucket.
        with ObjectPath(fs, bucket)._request(), suppress(PermissionError):
            fs.ls(bucket)
    except FileNotFoundError:
        if scheme != "memory":
            raise ConfigError(
                f"PARLEY_LAKE={url!r}: there is no bucket {bucket!r}. Make it, or name another one"
            ) from None
    return place


def _stat(info: Mapping[str, Any]) -> ObjectStat:
    """Return the status from fsspec's `info`, whose fields differ between kinds of stores."""
    times = (
        info.get(name) for name in ("LastModified", "last_modified", "mtime", "updated", "created")
    )
    changed = next((time for time in times if time is not None), 0.0)
    if isinstance(changed, str):
        changed = datetime.fromisoformat(changed)
    seconds = changed.timestamp() if isinstance(changed, datetime) else float(changed)
    size = int(info.get("size") or 0)
    version = next(
        (str(info[name]) for name in ("ETag", "etag", "md5Hash", "generation") if info.get(name)),
        "",
    )
    number = int.from_bytes(sha256(f"{version} {size} {seconds}".encode()).digest()[:7])
    return ObjectStat(size, int(seconds * 1e9), number)
