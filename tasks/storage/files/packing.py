"""Packs a stored file's bytes. To open a workspace is to unpack a whole repository, so what counts is how fast that goes."""

import functools
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import Codec

_MARK, _SIZE_BYTES = b"lz4\0", 8
_MOST_BYTES = 2**32
"""No file is so large: a size above is that of spoiled bytes, for which no memory is asked."""


def packed(content: bytes) -> bytes:
    """A content as LZ4, behind a mark and its size. A tenth larger than zlib makes it, and unpacked ten times as fast."""
    return b"".join(
        (
            _MARK,
            len(content).to_bytes(_SIZE_BYTES, "little"),
            _codec().compress(content, asbytes=True),
        )
    )


def unpacked(data: bytes) -> bytes:
    """What was packed; by zlib, too, as stores of earlier releases hold it.

    Raises:
        ValueError: the bytes are neither.
        OSError: they are spoiled.
    """
    body = len(_MARK) + _SIZE_BYTES
    if not data.startswith(_MARK):
        try:
            return zlib.decompress(data)
        except zlib.error as error:
            raise ValueError(str(error)) from error
    size = int.from_bytes(data[len(_MARK) : body], "little")
    if size > _MOST_BYTES:
        raise ValueError(f"{size} bytes are said to be packed")
    return _codec().decompress(data[body:], size, asbytes=True)


@functools.cache
def _codec() -> "Codec":
    from pyarrow import Codec  # not at the top: commands that open no tree shall start at once

    return Codec("lz4")
