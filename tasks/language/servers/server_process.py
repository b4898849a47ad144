"""Model servers as child processes that a context manager starts, awaits and ends.

A server's process watches a pipe that its parent holds open. When the parent ends, even by SIGKILL,
the pipe closes and the server ends itself. (PDEATHSIG alone would end it with the parent's
*thread*, and flows start servers from threads.)
"""

import contextlib
import logging
import os
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
from tasks.language.servers.server_log import log_size, why_it_ended

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
            log_start = log_size(self._log)
            with self._log.open("ab") as output:
                self._process = subprocess.Popen(
                    [*self._command, *extra_arguments, "--parent", str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    env=self._environment,
                    start_new_session=True,
                )
        return _await_report(
            self._process, self._label, self._log, log_start, self._ready_s, on_progress
        )

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


def _await_report(
    process: subprocess.Popen[bytes],
    label: str,
    log: Path,
    log_start: int,
    ready_s: float,
    on_progress: Callable[[str], None],
) -> str:
    assert process.stdout is not None
    deadline_s, output = time.monotonic() + ready_s, b""
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
                f"model {label}: its server was not ready within {ready_s:g} s."
                f" {why_it_ended(log, log_start)}"
            )
        chunk = os.read(process.stdout.fileno(), 4096)
        if not chunk:
            raise ModelUnavailable(
                f"model {label}: its server ended at its start. {why_it_ended(log, log_start)}"
            )
        output += chunk


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
