"""What a run may leave on the host, and how it is found again: its own limits are a mark that no
process can take off.
"""

import glob
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from schemas.run import Limits

MIB = 1024 * 1024
_END_S = 30.0


def marked_limits(*, wall_s: float, cpu_s: float) -> Limits:
    """Limits that no other process of this host has: every child inherits them, and none may raise
    them.

    The test processes that run beside us differ in their pid, and so in these figures.
    """
    pid = os.getpid()
    return Limits(
        cpu_s=cpu_s,
        wall_s=wall_s,
        memory_mb=512,
        tmp_mb=32,
        file_mb=16 + pid % 41,
        open_files=101 + pid % 53,
        processes=32,
    )


@dataclass(frozen=True)
class Host:
    """The host around the runs of one corpus; `remains` names what is not as it was."""

    limits: Limits
    baits: Mapping[str, str]

    def remains(self) -> list[str]:
        """Processes and files that are left, after a moment for what is on its way out."""
        return [*_after_a_moment(self._processes), *self._files()]

    def _processes(self) -> Iterator[str]:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and self.is_marked(int(entry.name)):
                yield f"process {entry.name}: {_read(entry / 'cmdline')[:120]!r}"

    def is_marked(self, pid: int) -> bool:
        """Whether a process runs under the marked limits; a zombie has none."""
        found = (hard_limit(pid, "Max file size"), hard_limit(pid, "Max open files"))
        return found == (str(self.limits.file_mb * MIB), str(self.limits.open_files))

    def _files(self) -> Iterator[str]:
        bait = Path(self.baits["FILE"])
        if bait.read_text() != self.baits["SENTINEL"] or os.listdir(bait.parent) != [bait.name]:
            yield f"{bait.parent} was changed: {os.listdir(bait.parent)}"
        if not os.path.exists(f"/proc/{self.baits['PID']}/fd"):
            yield "the bait process was ended"
        for folder in ("/tmp", "/var/tmp", "/dev/shm", os.path.expanduser("~"), os.getcwd()):
            yield from glob.glob(f"{folder}/{self.baits['MARK']}*")


def _after_a_moment(look: Callable[[], Iterator[str]]) -> list[str]:
    deadline = time.monotonic() + _END_S
    while (found := list(look())) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def hard_limit(pid: int, name: str) -> str:
    """A hard limit of a process, as the kernel writes it; empty where there is no such process."""
    for line in _read(Path(f"/proc/{pid}/limits")).splitlines():
        if line.startswith(name):
            return line.removeprefix(name).split()[1]
    return ""
