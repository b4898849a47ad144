"""Faults of the machine, and retries after them.

A machine's shortage may be over when the program runs alone. A fault of the installation stays.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sandbox.host.shortage import SHORT_OF
from sandbox.host.slots import alone
from schemas.errors import HostShortage, SandboxUnavailable

P = ParamSpec("P")
T = TypeVar("T")


def is_shortage(fault: SandboxUnavailable) -> bool:
    """Return True if the machine lacked memory, processes, descriptors or time.

    The fault's own type decides, or a cause of it.
    """
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, HostShortage) or (
            isinstance(cause, OSError) and cause.errno in SHORT_OF
        ):
            return True
        cause = cause.__cause__
    return False


def retried_alone(run: Callable[P, T]) -> Callable[P, T]:
    """Make a function retry once after a shortage of the machine, with no other sandboxed program.

    A fault of the second attempt is raised as it is.
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
