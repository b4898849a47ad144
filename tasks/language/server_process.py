"""Model servers as processes of our own: started, awaited and ended by a context manager, and never left behind.

A server's process watches the pipe that its parent holds open: when the parent ends, by SIGKILL too, the pipe closes and the
server ends itself. (PDEATHSIG alone would end it with the parent's *thread*, and flows start servers from threads.)
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from schemas.errors import ModelUnavailable
from schemas.secret_names import without_secrets
from tasks.language.wire import shortened

_PACKAGE_ROOT = Path(__file__).resolve().parents[2]
_POLL_S = 0.5
_END_S = 10.0


@contextlib.contextmanager
def server_process(
    label: str, module: str, arguments: tuple[str, ...], log: Path, *, ready_s: float, keys: tuple[str, ...] = ()
) -> Iterator[str]:
    """Run `python -m module arguments` until the block ends; yields the base URL that it reports.

    Args:
        log: gets what the server writes.
        ready_s: how long it may take to report.
        keys: names of the key-like variables to pass on; it gets no others.

    Raises:
        ModelUnavailable: it ended, or reported nothing in time; holds the log's last lines and its path.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments, "--parent", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env=_environment(keys),
            start_new_session=True,
        )
    try:
        yield _reported(process, label, log, ready_s)
    finally:
        _end(process)


def _environment(keys: tuple[str, ...]) -> dict[str, str]:
    """Our environment without the keys of endpoints, with the packages that we run from first on the path.

    A server reads data of strangers (weights, prompts) and needs no endpoint's key. Its working directory must shadow nothing.
    """
    inherited = os.environ.get("PYTHONPATH")
    kept = without_secrets(os.environ, keep=keys)
    return {**kept, "PYTHONPATH": os.pathsep.join((str(_PACKAGE_ROOT), *([inherited] if inherited else ())))}


def _reported(process: subprocess.Popen[bytes], label: str, log: Path, ready_s: float) -> str:
    assert process.stdout is not None
    deadline_s, line = time.monotonic() + ready_s, b""
    while not line.endswith(b"\n"):
        left_s = deadline_s - time.monotonic()
        readable, _, _ = select.select([process.stdout], [], [], max(0.0, left_s))
        if not readable:
            raise ModelUnavailable(f"model {label}: its server was not ready within {ready_s:g} s. {_last_lines(log)}")
        chunk = os.read(process.stdout.fileno(), 4096)
        if not chunk:
            raise ModelUnavailable(f"model {label}: its server ended at its start. {_last_lines(log)}")
        line += chunk
    return line.decode().strip()


def _last_lines(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
        if lines:
            return f"The log ({log}) ends: {' | '.join(map(shortened, lines))}"
    return f"The log is {log}"


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
    """In a server's process: call `end`, then exit at once, when the parent closes its pipe or is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            readable, _, _ = select.select([sys.stdin], [], [], _POLL_S)
            if readable and not os.read(sys.stdin.fileno(), 1):
                break
        with contextlib.suppress(Exception):
            end()
        os._exit(0)

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def take_stdout() -> int:
    """Keep stdout's pipe for our report and send everything else that is written there to stderr, the log."""
    report = os.dup(1)
    os.dup2(2, 1)
    return report


def report_ready(report: int, base_url: str) -> None:
    """Tell the parent our address, through the descriptor that `take_stdout` kept."""
    os.write(report, f"{base_url}\n".encode())
    os.close(report)
