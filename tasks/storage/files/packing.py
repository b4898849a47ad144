"""Compression of stored files. Opening a workspace unpacks a whole repository, so speed matters."""

import functools
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import Codec

_PREFIX, _SIZE_BYTES = b"lz4\0", 8
_MOST_BYTES = 2**32
"""Largest plausible size of a file. A larger size means damaged bytes: no memory is allocated."""


def pack(content: bytes) -> bytes:
    """Return a content as LZ4, after a prefix and its size.

    The result is a tenth larger than that of zlib, and unpacked ten times as fast.
    """
    return b"".join(
        (
            _PREFIX,
            len(content).to_bytes(_SIZE_BYTES, "little"),
            _codec().compress(content, asbytes=True),
        )
    )


def unpack(data: bytes) -> bytes:
    """Return the content of packed bytes, including zlib's from stores of earlier releases.

    Raises:
        ValueError: the bytes have neither format.
        OSError: the bytes are damaged.
    """
    body = len(_PREFIX) + _SIZE_BYTES
    if not data.startswith(_PREFIX):
        try:
            return zlib.decompress(data)
        except zlib.error as error:
            raise ValueError(str(error)) from error
    size = int.from_bytes(data[len(_PREFIX) : body], "little")
    if size > _MOST_BYTES:
        raise ValueError(f"the stated size of {size} bytes is too large")
    return _codec().decompress(data[body:], size, asbytes=True)


@functools.cache
def _codec() -> "Codec":
    from pyarrow import Codec  # imported late, so that commands that open no tree start fast

    return Codec("lz4")
