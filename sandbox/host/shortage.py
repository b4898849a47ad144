"""Detection of a machine's shortages by error numbers, or by texts in other programs' messages."""

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
"""Texts in messages of the kernel, of Python and of bwrap that mean a shortage."""


def sandbox_fault(message: str, explanation: str) -> SandboxUnavailable:
    """Return the error to raise if another program could not start.

    Args:
        message: text of the error.
        explanation: text of the other program (bwrap, a daemon, the harness). If it names a
            shortage, the error is a HostShortage.
    """
    named = any(name in explanation.lower() for name in _NAMES)
    return HostShortage(message) if named else SandboxUnavailable(message)
