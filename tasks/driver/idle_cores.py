"""Measurement of idle processors."""

import os
import time
from collections.abc import Collection

import psutil


class IdleCores:
    """Meter of the share of time in which the processors that this process may use are idle."""

    def __init__(self) -> None:
        self._at, self._idle_s = time.monotonic(), _idle_s()

    def since_last(self) -> float:
        """Return the mean idle share since the last call, 0 to 1."""
        at, idle_s = time.monotonic(), _idle_s()
        n_idle = (idle_s - self._idle_s) / max(at - self._at, 1e-6)
        self._at, self._idle_s = at, idle_s
        return max(0.0, n_idle / len(_ours()))


def _idle_s() -> float:
    """Return the total idle seconds of the process's processors since the machine's start."""
    times = psutil.cpu_times(percpu=True)
    return sum(times[n].idle + getattr(times[n], "iowait", 0.0) for n in _ours() if n < len(times))


def _ours() -> Collection[int]:
    return (
        os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
