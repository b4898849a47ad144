"""Programs that use a server or a cluster, each a process of its own that a test can watch, signal
and kill.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
END_LIMIT_S = 60


@dataclass
class Driver:
    process: "subprocess.Popen[str]"

    def hear(self) -> Any:
        """The next line that it prints, as JSON."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the driver said nothing and wrote: {self.finish()}"
        return json.loads(line)

    def finish(self) -> str:
        """Close its input, which lets it end; what it wrote to stderr."""
        return self.process.communicate(timeout=120)[1]


@contextmanager
def driver(
    program: str,
    *arguments: object,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[Driver]:
    """Run a Python program in a session of its own; it is killed with the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environ or {})},
        cwd=cwd,
        start_new_session=True,
    )
    try:
        yield Driver(process)
    finally:
        process.kill()
        process.communicate()


def family(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """All that descend from a process, however deep."""
    return psutil.Process(process.pid).children(recursive=True)


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended; a zombie has."""
    return [process for process in processes if _lives(process)]


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # it may end between the two looks
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def wait_until_gone(
    processes: list[psutil.Process], limit_s: float = END_LIMIT_S
) -> list[psutil.Process]:
    """Who is still there after at most `limit_s`."""
    deadline = time.monotonic() + limit_s
    while living(processes) and time.monotonic() < deadline:
        time.sleep(0.05)
    return living(processes)
