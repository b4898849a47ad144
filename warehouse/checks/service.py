"""Process that checks tables and publishes the warehouse for the driver.

The process imports Great Expectations while the driver starts other things. Checks and DuckDB use
the memory of this process, not of the driver. Requests and answers are pickles on the process's
stdin and stdout. The process ends when its stdin closes, so it does not outlive the driver.
"""

import gc
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from schemas.outside.secret_names import without_secrets

if TYPE_CHECKING:
    from warehouse.marts import MartSource

R = TypeVar("R")
_ROOT = Path(__file__).resolve().parents[2]
_END_S = 5.0
_NICENESS = 10
"""Niceness of the process, which yields to the driver: a driver that waits for a processor
leaves endpoints idle.
"""


class WarehouseProcess:
    """Process of quality checks and publication, called by the driver. Not thread-safe.

    Args:
        secret_names: variables that the process must not see, besides those whose names look like
            keys.
        on_death: called if the process has died, before `call` runs the function itself. It
            may raise.
    """

    def __init__(
        self, secret_names: tuple[str, ...] = (), on_death: Callable[[], None] = lambda: None
    ) -> None:
        self._on_death = on_death
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            (sys.executable, "-P", "-m", "warehouse.checks.service"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**without_secrets(os.environ, drop=secret_names), "PYTHONPATH": path},
        )
        self._n_begun = 0

    def begin(self, function: Callable[..., object], *args: object) -> None:
        """Let the process run a function, whose result nobody needs, before the next call.

        If the process has died, the function does not run.
        """
        with suppress(OSError):
            self._send(function, args, {})
            self._n_begun += 1

    def call(self, function: Callable[..., R], *args: object, **options: object) -> R:
        """Run a function of this package in the process, and return its result.

        If the process has died, the function runs in the calling process.
        """
        answers = self._process.stdout
        assert answers is not None
        try:
            self._send(function, args, options)
            for _ in range(self._n_begun):
                pickle.load(answers)
            self._n_begun = 0
            answer = pickle.load(answers)
        except (OSError, EOFError, pickle.UnpicklingError):
            self._on_death()
            return function(*args, **options)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _send(self, function: Callable[..., object], *arguments: object) -> None:
        requests = self._process.stdin
        assert requests is not None
        pickle.dump((function, *arguments), requests, protocol=pickle.HIGHEST_PROTOCOL)
        requests.flush()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate(timeout=_END_S)


def prepare_publication(home: Path, marts: "Sequence[MartSource]") -> None:
    """Make the tables of a home's first publication. The import is the process's, not the driver's.

    Args:
        marts: marts of benchmarks, each after those that it reads.
    """
    from warehouse.publication.publish import prepare_tables

    prepare_tables(home, marts)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each request with the function's result or exception, until the requests end."""
    while True:
        try:
            function, args, options = pickle.load(requests)
        except EOFError:
            return
        try:
            answer: object = function(*args, **options)
        except Exception as error:  # noqa: BLE001 - the driver raises it
            answer = error
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


def _main() -> None:
    from warehouse.checks import warm

    # A terminal sends Ctrl-C to all processes; the driver decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Prints of libraries must not reach the answers.
    gc.disable()  # Collections take a fifth of the import, and free nothing.
    warm()
    gc.freeze()
    gc.enable()
    os.nice(_NICENESS)
    try:
        serve(sys.stdin.buffer, answers)
    except BrokenPipeError:  # The driver has ended, so nobody reads the answer.
        os._exit(0)


if __name__ == "__main__":
    _main()
