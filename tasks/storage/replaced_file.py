"""Atomic replacement of files that other processes read."""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from schemas.errors import UsageError


def replace_file(path: Path, data: bytes) -> None:
    """Write a file, and create its folders. An existing file is replaced completely or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise UsageError(f"{path}: cannot be written ({type(error).__name__}: {error})") from None
