"""Tar archive of files to deliver into a sandbox, after a check of their names."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import PurePosixPath


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return an uncompressed tar of the files; empty bytes if there are none.

    The files are readable and writable for their owner.

    Raises:
        ValueError: a name leaves the working directory.
    """
    if not files:
        return b""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(checked_name(name))
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def checked_name(name: str) -> str:
    """Return the name in normal form, after checking that it stays inside the working directory.

    Raises:
        ValueError: the name is empty or absolute, or contains `..` or a NUL.
    """
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise ValueError(
            f"file name {name!r}: must be relative to the working directory, without '..'"
        )
    return str(path)
