"""Sealed messages between supervisor and candidate process: encrypted, numbered and signed.

Only supervisor and candidate process have the key. The module runs on Python 3.5 and newer, since a
repository's tests run on its environment's Python, so annotations are comments. The candidate's
code runs in the candidate process, so it can read, write and replace the pipes' descriptors, but
without the key the messages are meaningless to it. The supervisor detects messages that the code
writes or repeats. If the code holds a message back, the program does not pass.
"""

import builtins
import os

try:
    from _sha3 import shake_256  # pyright: ignore[reportMissingImports]  (a built-in module: importing hashlib takes longer)
except ImportError:  # Python 3.5
    from keccak import shake_256

__builtins__ = dict(builtins.__dict__)  # The candidate can change the shared built-ins.

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable  # noqa: F401 - type comments name it
    from typing import Any  # noqa: F401 - type comments name it

_MAC_BYTES = 16
_LONGEST_MESSAGE = 1 << 16
NOISE = (b"tampering", b"the runner's channel was written to")
TO_PROGRAM, TO_SUPERVISOR = b"to program", b"to supervisor"


def fields(*parts):
    # type: (bytes) -> bytes
    """Join byte strings, with eight bytes of length before each."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def unpacked(data):
    # type: (bytes) -> list[bytes]
    """Split the result of `fields`. An incomplete last field is omitted."""
    parts = []  # type: list[bytes]
    while len(data) >= 8:
        size = int.from_bytes(data[:8], "big")
        parts.append(data[8 : 8 + size])
        data = data[8 + size :]
    return parts


def with_ends_kept(text, longest):
    # type: (bytes, int) -> bytes
    """Shorten a text to at most `longest` bytes: its beginning, a line of dots, and its end."""
    if len(text) <= longest:
        return text
    head = longest // 4
    return text[:head] + b"\n...\n" + text[head + 5 - longest :]


def sealer(key, direction):
    # type: (bytes, bytes) -> Callable[[bytes], bytes]
    """Make a function that seals the next message of one direction."""
    n = 0

    def seal(body, _shake=shake_256):
        # type: (bytes, Callable[..., Any]) -> bytes
        nonlocal n
        tag = fields(key, direction, n.to_bytes(8, "big"))
        n += 1
        text = _mixed(body, tag, _shake)
        sealed = _shake(tag + b"m" + text).digest(_MAC_BYTES) + text
        return len(sealed).to_bytes(8, "big") + sealed

    return seal


def opener(key, direction):
    # type: (bytes, bytes) -> Callable[[bytes], bytes | None]
    """Make a function that decrypts the next message of one direction (without its length).

    The function returns None for any other message.
    """
    n = 0

    def unseal(sealed, _shake=shake_256):
        # type: (bytes, Callable[..., Any]) -> bytes | None
        nonlocal n
        tag = fields(key, direction, n.to_bytes(8, "big"))
        n += 1
        mac, text = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
        if _shake(tag + b"m" + text).digest(_MAC_BYTES) != mac:
            return None
        return _mixed(text, tag, _shake)

    return unseal


def _mixed(body, tag, shake):
    # type: (bytes, bytes, Callable[..., Any]) -> bytes
    stream = shake(tag + b"e").digest(len(body))
    return (int.from_bytes(body, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(body), "big")


def write_all(descriptor, data, _write=os.write):
    # type: (int, bytes, Callable[[int, bytes], int]) -> None
    """Write all bytes, with as many calls as needed."""
    while data:
        data = data[_write(descriptor, data) :]


def read_exactly(descriptor, size, _read=os.read):
    # type: (int, int, Callable[[int, int], bytes]) -> bytes
    """Read `size` bytes from a descriptor.

    Raises:
        EOFError: the stream ends earlier.
    """
    data = b""
    while len(data) < size:
        piece = _read(descriptor, min(size - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return data


def read_field(descriptor):
    # type: (int) -> bytes
    """Read one field of `fields`."""
    return read_exactly(descriptor, int.from_bytes(read_exactly(descriptor, 8), "big"))


def framed(state, take):
    # type: (dict[str, Any], Callable[[bytes], None]) -> Callable[[bytes], None]
    """Make a function that receives data of a pipe, and passes each complete message to `take`.

    Messages are passed without their length.

    Args:
        state: `unread` contains the bytes of an incomplete message. Once `failure` is set, for
            example because a message is too long, further data is ignored.
        take: function that receives each message.
    """

    def hear(data):
        # type: (bytes) -> None
        state["unread"] += data
        while len(state["unread"]) >= 8 and state["failure"] is None:
            size = int.from_bytes(state["unread"][:8], "big")
            if size > _LONGEST_MESSAGE:
                state["failure"] = NOISE
            elif len(state["unread"]) < 8 + size:
                return
            else:
                message, state["unread"] = (
                    state["unread"][8 : 8 + size],
                    state["unread"][8 + size :],
                )
                take(message)

    return hear
