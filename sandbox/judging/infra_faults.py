"""Faults of the machine, and retries after them.

A shortage may not occur again if the program runs alone. A fault of the installation always does.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sandbox.host.capacity import SHORT_OF
from sandbox.host.slots import alone
from schemas.errors import HostShortage, SandboxUnavailable

P = ParamSpec("P")
T = TypeVar("T")


def is_shortage(fault: SandboxUnavailable) -> bool:
    """Return True if the machine lacked memory, processes, descriptors or time.

    That is the case if the fault or one of its causes is a HostShortage, or an OSError with one of
    the error numbers for shortages.
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
    """Make a function retry once after a shortage, while no other sandboxed program runs.

    A fault of the second attempt is raised unchanged.
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
