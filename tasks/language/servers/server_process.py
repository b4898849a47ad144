"""Model servers as child processes that a context manager starts, awaits and ends.

A server's process watches a pipe that its parent holds open. When the parent ends, even by SIGKILL,
the pipe closes and the server ends itself. (PDEATHSIG alone would end it with the parent's
*thread*, and flows start servers from threads.)

If a start fails, the error in the server's log is reported with its remedy. vLLM's last line is
often "See root cause above", so the first error counts.
"""

import contextlib
import logging
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from schemas.errors import ModelUnavailable
from schemas.outside.secret_names import without_secrets
from tasks.language.endpoints.faults import shortened

LOG = logging.getLogger("parley.servers")
RESTARTS = 5
"""Maximum number of restarts of one of Parley's own servers per night."""
_PACKAGE_ROOT = Path(__file__).resolve().parents[3]
_POLL_S = 0.5
_END_S = 10.0
_PROGRESS = b"... "
"""Prefix of the lines that a server reports before its address."""


@contextlib.contextmanager
def server_process(
    label: str,
    module: str,
    arguments: tuple[str, ...],
    log: Path,
    *,
    ready_s: float,
    restarts: int = 0,
    keys: tuple[str, ...] = (),
    on_progress: Callable[[str], None] = lambda _: None,
) -> Iterator[str]:
    """Run `python -m module arguments` until the block ends.

    Yield its base URL, the last reported line.

    Args:
        label: Label of the model, for messages.
        module: Module to run.
        arguments: Arguments of the module.
        log: File for the output of the server.
        ready_s: Time limit of the start in seconds.
        restarts: Maximum number of restarts after a crash, with `--port` and the port of the base
            URL.
        keys: Names of key-like variables to pass on. The server gets no others.
        on_progress: Called with each text that the server reports by `report_progress`.

    Raises:
        ModelUnavailable: The server ended or was not ready in time. The message contains the log's
            first error, or its last lines, and its path.
    """
    server = _Server(
        label, (sys.executable, "-P", "-m", module, *arguments), log, ready_s, _environment(keys)
    )
    try:
        address = server.start(on_progress)
        if restarts:
            server.keep_up(address, restarts)
        yield address
    finally:
        server.end()


class _Server:
    """Current process of a server, and a thread that restarts it."""

    def __init__(
        self,
        label: str,
        command: tuple[str, ...],
        log: Path,
        ready_s: float,
        environment: dict[str, str],
    ) -> None:
        self._label, self._command, self._log = label, command, log
        self._ready_s, self._environment = ready_s, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._starting, self._is_over = threading.Lock(), False
        self._keeper: threading.Thread | None = None

    def start(
        self, on_progress: Callable[[str], None] = lambda _: None, *extra_arguments: str
    ) -> str:
        """Start a process. Return the base URL that it reports when it is ready."""
        with self._starting:
            if self._is_over:
                raise ModelUnavailable(f"model {self._label}: its server has been stopped")
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as output:
                log_start = output.tell()
                self._process = subprocess.Popen(
                    [*self._command, *extra_arguments, "--parent", str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    env=self._environment,
                    start_new_session=True,
                )
        return self._await_report(self._process, log_start, on_progress)

    def _await_report(
        self,
        process: subprocess.Popen[bytes],
        log_start: int,
        on_progress: Callable[[str], None],
    ) -> str:
        assert process.stdout is not None
        deadline_s, output = time.monotonic() + self._ready_s, b""
        while True:
            line, newline, rest = output.partition(b"\n")
            if newline and not line.startswith(_PROGRESS):
                return line.decode().strip()
            if newline:
                output = rest
                on_progress(shortened(line.removeprefix(_PROGRESS).decode("utf-8", "replace")))
                continue
            left_s = deadline_s - time.monotonic()
            readable, _, _ = select.select([process.stdout], [], [], max(0.0, left_s))
            if not readable:
                raise ModelUnavailable(
                    f"model {self._label}: its server was not ready within {self._ready_s:g} s."
                    f" {why_it_ended(self._log, log_start)}"
                )
            chunk = os.read(process.stdout.fileno(), 4096)
            if not chunk:
                raise ModelUnavailable(
                    f"model {self._label}: its server ended at its start."
                    f" {why_it_ended(self._log, log_start)}"
                )
            output += chunk

    def keep_up(self, address: str, restarts: int) -> None:
        """Restart the server at its address when it ends, up to `restarts` times."""
        port = str(urlsplit(address).port)
        self._keeper = threading.Thread(
            target=self._keep_up, args=(port, restarts), name=f"{self._label} keeper", daemon=True
        )
        self._keeper.start()

    def _keep_up(self, port: str, restarts: int) -> None:
        for number in range(1, restarts + 1):
            process = self._process
            status = process.wait() if process is not None else None
            if self._is_over:
                return
            LOG.warning(
                "the server of %s ended (status %s): restart %d of %d",
                self._label,
                status,
                number,
                restarts,
            )
            # The server may end again, or the block may have ended.
            with contextlib.suppress(ModelUnavailable, ValueError, OSError):
                self.start(lambda _: None, "--port", port)

    def end(self) -> None:
        """End the server's process, and do not restart it."""
        with self._starting:
            self._is_over = True
        if self._process is not None:
            _end(self._process)
        if self._keeper is not None:
            self._keeper.join(_END_S)


def _environment(keys: tuple[str, ...]) -> dict[str, str]:
    """Return this process's environment without keys, with Parley's packages first on the path.

    A server reads untrusted data (weights, prompts) and needs no endpoint's key. Its working
    directory must not shadow any module.
    """
    inherited = os.environ.get("PYTHONPATH")
    inherited_variables = without_secrets(os.environ, keep=keys)
    return {
        **inherited_variables,
        "PYTHONPATH": os.pathsep.join((str(_PACKAGE_ROOT), *([inherited] if inherited else ()))),
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_with_parent(parent: int, end: Callable[[], None]) -> None:
    """Call `end` and exit when the parent closes its pipe or is gone. Servers' processes use it."""

    def watch() -> None:
        while os.getppid() == parent:
            readable, _, _ = select.select([sys.stdin], [], [], _POLL_S)
            if readable and not os.read(sys.stdin.fileno(), 1):
                break
        with contextlib.suppress(Exception):  # Nobody is left to read an error.
            end()
        os._exit(0)

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def take_stdout() -> int:
    """Return a descriptor of stdout for reports, and redirect other output to stderr, the log."""
    report = os.dup(1)
    os.dup2(2, 1)
    return report


def report_ready(report: int, base_url: str) -> None:
    """Report the server's address to the parent, through the descriptor of `take_stdout`."""
    os.write(report, f"{base_url}\n".encode())
    os.close(report)


def report_progress(report: int, text: str) -> None:
    """Report the phase of the server's start to the parent process."""
    os.write(report, _PROGRESS + f"{text}\n".encode())


_READ_BYTES = 4_000_000
_PREFIX = re.compile(
    r"^(?:\([^()]*\bpid=\d+\)\s*)?"  # Process that wrote the line.
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+\d[\d-]*\s+[\d:.,]+\s*(?:\[[^\]]*\]\s?)?)?"
)
_ERROR = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*"
    r"(?:Error|Exception|Fault|Interrupt|Exit|Unavailable|NotFound)\b(?::\s*\S.*)?$"
)
_HAS_MORE = re.compile(r"validation errors? for \w+$|:$")
_REPEATS = re.compile(
    r"Engine core initialization failed|See root cause above|EngineDeadError"
    r"|Engine process failed to start"
)
_ON_CPU = re.compile(
    r"VLLM_CPU_KVCACHE_SPACE|CPU backend|device_config=cpu|\bcpu_(?:worker|model_runner)\b"
)
_NO_ROOM = re.compile(
    r"KV cache|cache blocks|gpu_memory_utilization|gpu-memory-utilization|out of memory|OutOfMemory"
    r"|Cannot allocate memory|Free memory on device|memory utilization|can't allocate memory",
    re.IGNORECASE,
)
_LOWER = re.compile(
    r"out of memory|OutOfMemory|can(?:no|')t allocate memory|less than desired", re.IGNORECASE
)
_MEMORY_REMEDIES = {
    (True, True): "set VLLM_CPU_KVCACHE_SPACE (GiB, in serve.environment) below the free memory,"
    " and lower serve.memory_share",
    (True, False): "raise VLLM_CPU_KVCACHE_SPACE (GiB, in serve.environment), or lower"
    " serve.max_model_len",
    (False, True): "lower serve.memory_share, or give the model more GPUs by serve.tensor_parallel",
    (False, False): "raise serve.memory_share, lower serve.max_model_len, or raise"
    " serve.tensor_parallel",
}
"""(on CPU, out of memory) -> remedy. If memory is not exhausted, the cache is too small."""
_REMEDIES = (
    (
        re.compile(r"Address already in use|EADDRINUSE", re.IGNORECASE),
        "another program took its port. Repeat the command",
    ),
    (
        re.compile(
            r"No CUDA GPUs|no NVIDIA driver|invalid device ordinal|Failed to infer device type"
        ),
        "check serve.devices",
    ),
    (
        re.compile(r"gated repo|401 Client Error|403 Client Error"),
        "set HF_TOKEN to a token that may read the repository",
    ),
    (
        re.compile(r"trust_remote_code"),
        "add --trust-remote-code to serve.arguments if you trust the repository's code",
    ),
    (
        re.compile(r"architectures? .*not supported|does not recognize this architecture"),
        "this vLLM cannot serve the model",
    ),
)


def why_it_ended(log: Path, start: int = 0) -> str:
    """Return the first error in a server's log with its remedy, or the log's last lines.

    The text names the log's path.

    Args:
        log: Log of the server.
        start: Position where this start's lines begin.
    """
    with contextlib.suppress(OSError):  # There may be no log.
        with log.open("rb") as file:
            before = file.read(start).count(b"\n")
            text = file.read(_READ_BYTES).decode("utf-8", "replace")
        if (numbered_error := first_error(text)) is not None:
            number, error = numbered_error
            advice = remedy(error, text)
            return f"Its first error ({log}, line {before + number}): {shortened(error)}" + (
                f". Remedy: {advice}" if advice else ""
            )
        if lines := text.strip().splitlines()[-5:]:
            return f"The log ({log}) ends: {' | '.join(map(shortened, lines))}"
    return f"The log is {log}"


def first_error(text: str) -> tuple[int, str] | None:
    """Return the number and text of the first line with an error, or None.

    The error that ends a traceback precedes lines that are logged as errors. Errors that are only
    warned about, and errors that refer to an earlier one, are ignored.
    """
    in_traceback, logged, lines = False, None, [_split(line) for line in text.splitlines()]
    for number, (level, words) in enumerate(lines, 1):
        if words.startswith("Traceback (most recent call last)"):
            in_traceback = level in (None, "ERROR", "CRITICAL")
        elif in_traceback and _ERROR.match(words):
            in_traceback = False
            if not _REPEATS.search(words):
                more = lines[number : number + 2] if _HAS_MORE.search(words) else []
                return number, " ".join(
                    part.strip() for part in (words, *(text for _, text in more))
                )
        elif (
            level in ("ERROR", "CRITICAL") and not in_traceback and logged is None and words.strip()
        ):
            logged = number, words.strip()
    return logged


def _split(line: str) -> tuple[str | None, str]:
    """Return a line's level, or None, and its text without process name, time and location."""
    prefix = _PREFIX.match(line)
    return (prefix["level"], line[prefix.end() :]) if prefix else (None, line)


def remedy(error: str, text: str) -> str | None:
    """Return the remedy of an error, or None if it is unknown.

    Args:
        error: Text of the error.
        text: Complete log, which shows whether the server runs on CPUs.
    """
    if _NO_ROOM.search(error):
        is_on_cpu = _ON_CPU.search(text) is not None
        return _MEMORY_REMEDIES[is_on_cpu, _LOWER.search(error) is not None]
    return next((advice for pattern, advice in _REMEDIES if pattern.search(error)), None)
