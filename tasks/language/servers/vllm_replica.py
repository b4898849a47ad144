"""One vLLM server as a child process: start, supervision, restart, and end with all descendants."""

import ctypes
import json
import os
import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tasks.language.servers.vllm_settings import ServeCommand

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SEGMENT = "/dev/shm/psm_"
WATCHER = "tasks.language.servers.vllm_server"
"""Module of the process that supervises servers."""
_GRACE_S = 3.0
"""Seconds between SIGTERM and SIGKILL when a server is ended."""
_CLEANERS_S = 2.0
"""Seconds that multiprocessing's resource trackers get to remove shared memory."""
_TAIL_BYTES = 8192
_PORTS = range(20_000, 30_000)
"""Ports below those of outgoing connections and of automatic choice (from 32,768 on Linux)."""
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
"""Pattern in vLLM's log -> phase of its start. The first matching pattern counts."""
try:
    _LIBC: Any = ctypes.CDLL(None, use_errno=True)
except OSError:  # Without libc's functions, their users below do nothing.
    _LIBC = None


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so `children` finds them (Linux)."""
    if _LIBC is not None and hasattr(_LIBC, "prctl"):
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_with_us() -> None:
    if _LIBC is not None and hasattr(_LIBC, "prctl"):
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Replica:
    """Server on its own port, which it keeps after a restart.

    Args:
        command: Command of the server.
        log: File for its output.
    """

    def __init__(self, command: ServeCommand, log: Path) -> None:
        self.port, self.log = _free_port(), log
        self.restarts = 0
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def base_url(self) -> str:
        """Return the base URL of the server."""
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        """Start the server. It ends with the calling thread."""
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
        """Return the exit status, or None while the process runs."""
        return self._process.poll() if self._process else 1

    def is_healthy(self) -> bool:
        """Return True if the server reports that it can answer."""
        return self._get("/health") is not None

    def served_models(self) -> list[str]:
        """Return the names that the server answers to, or [] if it reports none."""
        with suppress(ValueError, KeyError, TypeError):
            return [str(row["id"]) for row in json.loads(self._get("/v1/models") or b"{}")["data"]]
        return []

    def _get(self, path: str) -> bytes | None:
        from http.client import HTTPException  # here: commands that start no server stay quick
        from urllib.request import ProxyHandler, build_opener

        opener = build_opener(ProxyHandler({}))
        # HTTPException: another program may have taken the port.
        with suppress(OSError, ValueError, HTTPException):
            with opener.open(f"http://127.0.0.1:{self.port}{path}", timeout=5) as response:
                return response.read() if response.status == 200 else None
        return None

    def phase(self) -> str:
        """Return the phase of the start, according to its log."""
        with suppress(OSError):
            with self.log.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, end - _TAIL_BYTES))
                text = log.read().decode("utf-8", "replace")
            for pattern, name in _PHASES:
                matches = list(pattern.finditer(text))
                if matches:
                    share = next((group for group in matches[-1].groups() if group), "")
                    return f"{name} {share}".strip()
        return "starts"

    def end(self) -> None:
        """End the server and its descendants: SIGTERM, then SIGKILL after three seconds.

        The processes that remove shared memory end last.
        """
        process, self._process = self._process, None
        if process is None:
            return
        shared = _shared_memory(_group(process.pid))
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        for cleaner_s in (_CLEANERS_S, 0.0):
            deadline_s = time.monotonic() + cleaner_s
            while processes := _group(process.pid):
                cleaners = {
                    pid for pid, is_cleaner in processes.items() if is_cleaner and cleaner_s
                }
                _kill(processes.keys() - cleaners)
                if time.monotonic() > deadline_s:
                    break
                time.sleep(0.05)
        process.wait()
        for segment in shared:
            segment.unlink(missing_ok=True)


def _shared_memory(pids: Iterable[int]) -> set[Path]:
    """Return the shared memory segments of these processes, made by multiprocessing.

    The caller removes what multiprocessing's resource tracker is too slow to remove.
    """
    segments: set[Path] = set()
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace").split("\n")
            segments |= {
                Path(path)
                for line in lines
                if (path := line.partition("/")[1] + line.partition("/")[2]).startswith(_SEGMENT)
            }
    return {segment for segment in segments if segment.is_file()}


def _group(leader: int) -> dict[int, bool]:
    """Return the living descendants in a process group: pid -> True if it cleans shared memory."""
    import psutil

    processes: dict[int, bool] = {}
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(child.pid) == leader and child.status() != psutil.STATUS_ZOMBIE:
                processes[child.pid] = any(
                    "multiprocessing.resource_tracker" in word for word in child.cmdline()
                )
    return processes


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end_everything() -> None:
    """End all descendants, including adopted processes and those in other process groups."""
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
    """End the remains of servers whose supervisor was killed.

    These are processes that write into a server's log without a supervisor above them.

    Args:
        logs: Folder of the logs.

    Returns:
        Number of ended processes.
    """
    writers, logs = list[int](), logs.resolve()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            first, second = ((process / "fd" / number).readlink() for number in "12")
            if first == second and first.parent == logs and fnmatch(first.name, "vllm-*.log"):
                writers.append(int(process.name))
    if not writers:
        return 0
    import psutil

    orphans = list[int]()
    for pid in writers:
        with suppress(psutil.Error):
            writer = psutil.Process(pid)
            if not any(WATCHER in above.cmdline() for above in (writer, *writer.parents())):
                orphans.append(pid)
    shared = _shared_memory(orphans)
    _kill(orphans)
    for segment in shared:
        segment.unlink(missing_ok=True)
    return len(orphans)


def _free_port() -> int:
    """Return a free port that the kernel does not assign.

    vLLM binds it only after loading its weights.
    """
    for port in random.sample(_PORTS, 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
