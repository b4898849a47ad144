"""One vLLM server as a process below us: started, watched, started again, and ended with everything that it started."""

import ctypes
import json
import os
import random
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatch
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tasks.language.servers.vllm_command import ServeCommand

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SEGMENT = "/dev/shm/psm_"
WATCHER = "tasks.language.servers.vllm_server"
"""Module of the process that watches over servers."""
_GRACE_S = 3.0
"""From SIGTERM to SIGKILL."""
_CLEANERS_S = 2.0
"""How long multiprocessing's own cleaners live on: they remove the shared memory of processes that were killed."""
_TAIL_BYTES = 8192
_PORTS = range(20_000, 30_000)
"""Below the ports of outgoing connections and of servers that ask for any port (from 32,768 on Linux)."""
_PHASES = (
    (re.compile(r"Application startup complete"), "listens"),
    (re.compile(r"Capturing CUDA graphs?\D*(\d+%)?", re.IGNORECASE), "captures graphs"),
    (re.compile(r"torch\.compile|Compiling", re.IGNORECASE), "compiles"),
    (
        re.compile(r"KV cache size|CPU KV cache|Available KV cache", re.IGNORECASE),
        "makes its cache",
    ),
    (re.compile(r"Loading safetensors checkpoint shards:\s*(\d+%)"), "loads weights"),
    (re.compile(r"Starting to load model|Loading weights"), "loads weights"),
    (re.compile(r"Initializing a V1 LLM engine|Resolved architecture"), "makes its engine"),
)
"""What vLLM writes into its log -> what it is at; the first pattern that is found counts."""
try:
    _LIBC: Any = ctypes.CDLL(None, use_errno=True)
except OSError:  # no such thing here: the parts below that need it do nothing
    _LIBC = None


def adopt_orphans() -> None:
    """Become the parent of every process below us whose own parent ends, so that `descendants` finds it (Linux)."""
    if _LIBC is not None and hasattr(_LIBC, "prctl"):
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_with_us() -> None:
    if _LIBC is not None and hasattr(_LIBC, "prctl"):
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Replica:
    """A server on a port of its own, which it keeps when it is started again.

    Args:
        log: gets what it writes.
    """

    def __init__(self, command: ServeCommand, log: Path) -> None:
        self.port, self.log = _free_port(), log
        self.restarts = 0
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def base_url(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        """Start the server. It ends with the thread that calls this."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self._command.at(self.port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._command.environment},
                start_new_session=True,
                preexec_fn=_end_with_us,
            )

    def exit_status(self) -> int | None:
        """How the process ended; None while it runs."""
        return self._process.poll() if self._process else 1

    def is_healthy(self) -> bool:
        """Whether it says that it can answer."""
        return self._get("/health") is not None

    def served_models(self) -> list[str]:
        """The names that it answers to; none where it does not say."""
        with suppress(ValueError, KeyError, TypeError):
            return [str(row["id"]) for row in json.loads(self._get("/v1/models") or b"{}")["data"]]
        return []

    def _get(self, path: str) -> bytes | None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with suppress(
            OSError, ValueError, HTTPException
        ):  # another program may have taken the port meanwhile
            with opener.open(f"http://127.0.0.1:{self.port}{path}", timeout=5) as response:
                return response.read() if response.status == 200 else None
        return None

    def phase(self) -> str:
        """What it is at, as its log of this start tells."""
        with suppress(OSError):
            with self.log.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, end - _TAIL_BYTES))
                text = log.read().decode("utf-8", "replace")
            for pattern, name in _PHASES:
                found = list(pattern.finditer(text))
                if found:
                    share = next((group for group in found[-1].groups() if group), "")
                    return f"{name} {share}".strip()
        return "starts"

    def end(self) -> None:
        """End it with all that it started: SIGTERM, after three seconds SIGKILL. The remover of shared memory ends last."""
        process, self._process = self._process, None
        if process is None:
            return
        shared = _shared_memory(_group(process.pid))
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        for kept_s in (_CLEANERS_S, 0.0):
            deadline_s = time.monotonic() + kept_s
            while below := _group(process.pid):
                cleaners = {pid for pid, is_cleaner in below.items() if is_cleaner and kept_s}
                _kill(below.keys() - cleaners)
                if time.monotonic() > deadline_s:
                    break
                time.sleep(0.05)
        process.wait()
        for segment in shared:
            segment.unlink(missing_ok=True)


def _shared_memory(pids: Iterable[int]) -> set[Path]:
    """Segments of multiprocessing's that these processes hold; where their cleaner is too slow, they would stay for ever."""
    found: set[Path] = set()
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace").split("\n")
            found |= {
                Path(place)
                for line in lines
                if (place := line.partition("/")[1] + line.partition("/")[2]).startswith(_SEGMENT)
            }
    return {segment for segment in found if segment.is_file()}


def _group(leader: int) -> dict[int, bool]:
    """Living processes below us of one group, adopted ones too -> whether it removes what others leave in shared memory."""
    import psutil

    found: dict[int, bool] = {}
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(child.pid) == leader and child.status() != psutil.STATUS_ZOMBIE:
                found[child.pid] = any(
                    "multiprocessing.resource_tracker" in word for word in child.cmdline()
                )
    return found


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end_everything() -> None:
    """End all processes below us, adopted ones and those that left their group included."""
    import psutil

    for _ in range(20):
        living = [
            p.pid
            for p in psutil.Process().children(recursive=True)
            if p.is_running() and p.status() != psutil.STATUS_ZOMBIE
        ]
        if not living:
            return
        _kill(living)
        time.sleep(0.05)


def end_orphans(logs: Path) -> int:
    """End what is left of servers whose watcher was killed: processes that write into their log, with no watcher above them.

    Args:
        logs: folder of the logs.

    Returns:
        How many there were.
    """
    import psutil

    orphans, logs = list[int](), logs.resolve()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, psutil.Error):
            first, second = ((process / "fd" / number).readlink() for number in "12")
            if first == second and first.parent == logs and fnmatch(first.name, "vllm-*.log"):
                found = psutil.Process(int(process.name))
                if not any(WATCHER in above.cmdline() for above in (found, *found.parents())):
                    orphans.append(found.pid)
    shared = _shared_memory(orphans)
    _kill(orphans)
    for segment in shared:
        segment.unlink(missing_ok=True)
    return len(orphans)


def _free_port() -> int:
    """Return a free port that the kernel gives to nobody: vLLM binds it only after its weights are loaded."""
    for port in random.sample(_PORTS, 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
