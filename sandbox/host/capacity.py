"""CPUs and memory that programs may use now, which control groups may limit."""

import errno
import math
import os
from collections.abc import Iterator
from pathlib import Path

from schemas.errors import HostShortage, SandboxUnavailable

MIB = 1024 * 1024
_CGROUPS = Path("/sys/fs/cgroup")


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use, 1 and up.

    It is the number of CPUs in the process's affinity mask, or less if a control group has a CPU
    quota.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    quotas = [
        math.ceil(quota) for quota in map(_cpu_quota, _own_groups("cpu")) if quota is not None
    ]
    return max(1, min([count, *quotas]))


def available_mb() -> int | None:
    """Return the MiB of memory that programs could use now before a process is killed.

    It is the machine's available memory, or that of a control group if less. Memory of file caches
    counts as free. Return None if the system does not report it.
    """
    sizes = [_machine_available(), *map(_group_headroom, _own_groups("memory"))]
    reported = [size for size in sizes if size is not None]
    return max(0, min(reported)) // MIB if reported else None


def _machine_available() -> int | None:
    for line in _text(Path("/proc/meminfo")).splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _own_groups(controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control group and of its parents.

    Args:
        controller: controller whose groups to return in version 1. In version 2 all controllers
            share one hierarchy.
    """
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        root = _CGROUPS / names
        group = root / path.lstrip("/")
        while group != root and root in group.parents:
            yield group
            group = group.parent
        yield root


def _group_headroom(group: Path) -> int | None:
    limit = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
    used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes")
    if limit is None or used is None:
        return None
    stat = dict(line.split(" ", 1) for line in _text(group / "memory.stat").splitlines())
    return limit - used + int(stat.get("total_inactive_file") or stat.get("inactive_file") or 0)


def _cpu_quota(group: Path) -> float | None:
    quota, _, period = _text(group / "cpu.max").strip().partition(" ")
    if quota.isdigit():
        return int(quota) / int(period)
    slice_us, period_us = _number(group / "cpu.cfs_quota_us"), _number(group / "cpu.cfs_period_us")
    return slice_us / period_us if slice_us and period_us else None


def _number(path: Path) -> int | None:
    """Return the number in a file; None without a file, or if it means no limit (`max`, -1)."""
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


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
