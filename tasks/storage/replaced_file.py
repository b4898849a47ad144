"""Files for others to read, written in one step."""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from schemas.errors import UsageError


def replace_file(path: Path, data: bytes) -> None:
    """Write a file and its folders; a file of that name is replaced whole or not at all.

    Raises:
        UsageError: it cannot be written.
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
