"""Messages between Parley and the launcher in a container. Both ends use this module.

A message is a head in JSON, followed by byte strings. It is sent as the length of the rest (8
bytes), the length of the head (4 bytes), the head, and the byte strings one after another. The
head's field `sizes` lists the lengths of the byte strings.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

LENGTH_BYTES = 8
_HEAD_BYTES = 4


def pack(head: dict[str, Any], *blobs: bytes) -> bytes:
    """Encode one message."""
    text = json.dumps({**head, "sizes": [len(blob) for blob in blobs]}).encode()
    body = b"".join((len(text).to_bytes(_HEAD_BYTES, "big"), text, *blobs))
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def receive(
    read_exactly: Callable[[int], bytes], longest: int
) -> tuple[dict[str, Any], list[bytes]]:
    """Read one message.

    Args:
        read_exactly: function that returns the requested number of bytes, or raises an exception if
            the stream ends.
        longest: maximum number of bytes of a message.

    Raises:
        ValueError: the bytes are not a message, or the message is too long.
    """
    size = int.from_bytes(read_exactly(LENGTH_BYTES), "big")
    if not _HEAD_BYTES <= size <= longest:
        raise ValueError(f"the message has {size} bytes, but at most {longest} are allowed")
    head_size = int.from_bytes(read_exactly(_HEAD_BYTES), "big")
    if _HEAD_BYTES + head_size > size:
        raise ValueError(f"damaged message: a header of {head_size} bytes in a message of {size}")
    head = json.loads(read_exactly(head_size))
    if not isinstance(head, dict) or not isinstance(head.get("sizes"), list):
        raise ValueError("the message has no head")
    sizes = head.pop("sizes")
    if min(sizes, default=0) < 0 or _HEAD_BYTES + head_size + sum(sizes) != size:
        raise ValueError(f"damaged message: parts of {sizes} bytes do not fill a message of {size}")
    return head, [read_exactly(length) for length in sizes]
