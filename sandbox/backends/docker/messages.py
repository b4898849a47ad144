"""Messages between Parley and the launcher in a container: a head in JSON, then byte strings. Both ends use this file.

On the wire: length of all that follows (8 bytes), length of the head (4 bytes), the head, the byte strings one after another. The
head's `sizes` are their lengths.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

LENGTH_BYTES = 8
_HEAD_BYTES = 4


def pack(head: dict[str, Any], *blobs: bytes) -> bytes:
    """One message, ready to send."""
    text = json.dumps({**head, "sizes": [len(blob) for blob in blobs]}).encode()
    body = b"".join((len(text).to_bytes(_HEAD_BYTES, "big"), text, *blobs))
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def receive(
    read_exactly: Callable[[int], bytes], longest: int
) -> tuple[dict[str, Any], list[bytes]]:
    """Read one message.

    Args:
        read_exactly: gives that many bytes; raises where they do not come.
        longest: bytes that a message may have.

    Raises:
        ValueError: what comes is no message, or a longer one.
    """
    size = int.from_bytes(read_exactly(LENGTH_BYTES), "big")
    if not _HEAD_BYTES <= size <= longest:
        raise ValueError(f"a message of {size} bytes, where at most {longest} are expected")
    head_size = int.from_bytes(read_exactly(_HEAD_BYTES), "big")
    if _HEAD_BYTES + head_size > size:
        raise ValueError("a message whose head is longer than the message")
    head = json.loads(read_exactly(head_size))
    if not isinstance(head, dict) or not isinstance(head.get("sizes"), list):
        raise ValueError("a message without a head")
    sizes = head.pop("sizes")
    if min(sizes, default=0) < 0 or _HEAD_BYTES + head_size + sum(sizes) != size:
        raise ValueError("a message whose parts do not add up")
    return head, [read_exactly(length) for length in sizes]
