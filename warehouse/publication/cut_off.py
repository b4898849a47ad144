"""Blocks of the earlier publication at the end of the new file, for readers during replacement.

DuckDB opens a file by name twice: it reads the header through the first opening and the blocks
through the second. A publication may replace the file in between. The new file is a copy of the old
one with one more checkpoint. A checkpoint overwrites no block that the header before it reaches; it
only cuts free blocks off the file's end. With these blocks appended again, the old header and the
new file are the complete old publication. A line at the very end states the file's length without
them. It counts only while the header is unchanged: another program that writes to the file changes
the header, and may use the space of the blocks.
"""

import hashlib
import os
import re
import shutil
from pathlib import Path

_HEADER_BYTES = 3 * 4096
_MARK = b"\nparley: under header %s, from byte %020d on: blocks of the publication before\n"
_MARKED = re.compile(_MARK.replace(b"%s", rb"(\w{64})").replace(b"%020d", rb"(\d{20})"))
_MARK_BYTES = len(_MARK % (b"0" * 64, 0))


def append_cut_off_blocks(old: Path, new: Path) -> None:
    """Append the blocks that `new`, a copy of `old` with one more checkpoint, lost at its end.

    Raises:
        OSError: no space or no permission to write.
    """
    own, needed = new.stat().st_size, _own_bytes(old)
    if own >= needed:
        return
    with old.open("rb") as source, new.open("ab") as target:
        source.seek(own)
        shutil.copyfileobj(source, target)
        target.truncate(needed)
        target.write(_MARK % (_header(new), own))


def drop_appended_blocks(path: Path) -> None:
    """Cut the appended blocks off a file."""
    os.truncate(path, _own_bytes(path))


def _own_bytes(path: Path) -> int:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MARK_BYTES))
        marked = _MARKED.fullmatch(file.read())
    return int(marked[2]) if marked and marked[1] == _header(path) else size


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.sha256(file.read(_HEADER_BYTES)).hexdigest().encode()
