"""What a machine can be short of, as the kernel tells it: by number to us, by name in what other programs write."""

import errno
import os

from schemas.errors import HostShortage, SandboxUnavailable

SHORT_OF = frozenset({errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE})
_NAMES = (
    *(os.strerror(number).lower() for number in SHORT_OF),
    "memoryerror",
    "can't start new thread",
    "out of memory",
)
"""The kernel's, Python's and bwrap's own."""


def sandbox_fault(message: str, said: str) -> SandboxUnavailable:
    """The fault to raise where another program (bwrap, a daemon, our harness) `said` why it could not begin."""
    named = any(name in said.lower() for name in _NAMES)
    return HostShortage(message) if named else SandboxUnavailable(message)
