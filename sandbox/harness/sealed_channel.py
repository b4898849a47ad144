"""Messages between supervisor and judged program: encrypted, numbered and signed with a key that only these two hold.

The candidate shares the program's process, so it can read from, write to and exchange the pipes' descriptors. What it reads is
noise, what it writes or repeats is recognised, and what it holds back is a program that has not passed.
"""

from __future__ import annotations

import builtins
import os
from _sha3 import shake_256  # pyright: ignore[reportMissingImports]  (a built-in module: hashlib would cost each run its import)

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MAC_BYTES = 16
TO_PROGRAM, TO_SUPERVISOR = b"to program", b"to supervisor"


def fields(*parts: bytes) -> bytes:
    """Several byte strings as one: eight bytes of length before each."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def unpacked(data: bytes) -> list[bytes]:
    """What `fields` was given. A torn end is left out."""
    found: list[bytes] = []
    while len(data) >= 8:
        size = int.from_bytes(data[:8], "big")
        found.append(data[8 : 8 + size])
        data = data[8 + size :]
    return found


def with_ends_kept(text: bytes, longest: int) -> bytes:
    """At most `longest` bytes of a text: its first quarter and its end, a line of dots between them where it was longer."""
    if len(text) <= longest:
        return text
    head = longest // 4
    return text[:head] + b"\n...\n" + text[head + 5 - longest :]


def sealer(key: bytes, direction: bytes) -> Callable[[bytes], bytes]:
    """A function that makes the next message of one direction."""
    n = 0

    def seal(body: bytes, _shake: Callable[..., Any] = shake_256) -> bytes:
        nonlocal n
        tag = fields(key, direction, n.to_bytes(8, "big"))
        n += 1
        text = _mixed(body, tag, _shake)
        sealed = _shake(tag + b"m" + text).digest(_MAC_BYTES) + text
        return len(sealed).to_bytes(8, "big") + sealed

    return seal


def opener(key: bytes, direction: bytes) -> Callable[[bytes], bytes | None]:
    """A function that opens the next message of one direction (without its length); None where it is not that."""
    n = 0

    def unseal(sealed: bytes, _shake: Callable[..., Any] = shake_256) -> bytes | None:
        nonlocal n
        tag = fields(key, direction, n.to_bytes(8, "big"))
        n += 1
        mac, text = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
        if _shake(tag + b"m" + text).digest(_MAC_BYTES) != mac:
            return None
        return _mixed(text, tag, _shake)

    return unseal


def _mixed(body: bytes, tag: bytes, shake: Callable[..., Any]) -> bytes:
    stream = shake(tag + b"e").digest(len(body))
    return (int.from_bytes(body, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(body), "big")


def write_all(descriptor: int, data: bytes, _write: Callable[[int, bytes], int] = os.write) -> None:
    """Write all of it, however many calls that takes."""
    while data:
        data = data[_write(descriptor, data) :]


def read_exactly(descriptor: int, size: int, _read: Callable[[int, int], bytes] = os.read) -> bytes:
    """`size` bytes from a descriptor. Raises EOFError where it ends before."""
    data = b""
    while len(data) < size:
        piece = _read(descriptor, min(size - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return data


def read_field(descriptor: int) -> bytes:
    """One field of `fields`."""
    return read_exactly(descriptor, int.from_bytes(read_exactly(descriptor, 8), "big"))
