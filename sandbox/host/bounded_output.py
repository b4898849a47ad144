"""Bounded output.

The module uses only the standard library, because the launcher in a container imports it, too.
"""

from __future__ import annotations


class BoundedOutput:
    """First `keep_kb` KiB and last `keep_kb` KiB of a stream of any length."""

    def __init__(self, keep_kb: int) -> None:
        self._keep = keep_kb * 1024
        self._head, self._tail = bytearray(), bytearray()
        self._left_out = 0

    def add(self, data: bytes) -> None:
        """Append the stream's next piece."""
        room = self._keep - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        surplus = len(self._tail) - self._keep
        if surplus > 0:
            del self._tail[:surplus]
            self._left_out += surplus

    def value(self) -> bytes:
        """Return the stored bytes.

        If bytes were omitted, a line between head and tail states how many.
        """
        if not self._left_out:
            return bytes(self._head + self._tail)
        return (
            bytes(self._head)
            + b"\n[... %d bytes left out ...]\n" % self._left_out
            + bytes(self._tail)
        )
