"""Faults of the machine, told from faults of the installation: what the machine was short of may be there when a run is alone."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sandbox.host.shortage import SHORT_OF
from sandbox.host.slots import alone
from schemas.errors import HostShortage, SandboxUnavailable

P = ParamSpec("P")
T = TypeVar("T")


def is_shortage(fault: SandboxUnavailable) -> bool:
    """Whether the machine lacked memory, processes, descriptors or time: by the fault's own type, or by what caused it."""
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, HostShortage) or (
            isinstance(cause, OSError) and cause.errno in SHORT_OF
        ):
            return True
        cause = cause.__cause__
    return False


def retried_alone(run: Callable[P, T]) -> Callable[P, T]:
    """Let a run that the machine's own shortage ended try once more, while no other sandboxed program runs on this host.

    A fault that ends the second try is raised as it is.
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
