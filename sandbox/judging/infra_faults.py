"""Faults of the machine, told from faults of the installation: what the machine was short of may be there when a run is alone."""

import errno
import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sandbox.host.slots import alone
from schemas.errors import HostShortage, SandboxUnavailable

P = ParamSpec("P")
T = TypeVar("T")
_SHORT_OF = {errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE}
_SAID = re.compile(
    "cannot allocate memory|resource temporarily unavailable|out of memory|MemoryError|too many open files|"
    "can't start new thread|ended from outside by signal 9|overloaded",
    re.IGNORECASE,
)
"""How the kernel's answers read in what bwrap, Python and Docker write before a candidate begins, and our own words for it."""


def is_shortage(fault: SandboxUnavailable) -> bool:
    """Whether the machine lacked memory, processes, descriptors or time, as far as the fault tells."""
    cause = fault.__cause__
    if isinstance(fault, HostShortage) or (isinstance(cause, OSError) and cause.errno in _SHORT_OF):
        return True
    return _SAID.search(str(fault)) is not None


def retried_alone(run: Callable[P, T]) -> Callable[P, T]:
    """Let a run that the machine's own shortage ended try once more, while no other sandboxed program runs on this host.

    What ends that one, too, is raised as it is.
    """

    @functools.wraps(run)
    def once_more(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return run(*args, **kwargs)
        except SandboxUnavailable as fault:
            if not is_shortage(fault):
                raise
        with alone():
            return run(*args, **kwargs)

    return once_more
