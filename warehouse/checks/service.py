"""Checks of tables in a process of its own.

The process imports Great Expectations while its starter does other work. Requests and answers are
pickles on the process's stdin and stdout. The process ends when its stdin closes, so it ends with
its starter.
"""

import gc
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from schemas.lake.records import QualityCheck
from schemas.outside.secret_names import without_secrets
from warehouse.checks import CheckContext, check_table

_ROOT = Path(__file__).resolve().parents[2]
_END_S = 5.0
_NICENESS = 10
"""The process yields to dialogues in progress: a busy driver would leave their endpoints idle."""


class CheckService:
    """Check process, as its starter uses it. Not safe for several threads at a time.

    Args:
        secret_names: variables that the process must not see, besides those whose names look like
            keys.
    """

    def __init__(self, secret_names: tuple[str, ...] = ()) -> None:
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            (sys.executable, "-P", "-m", "warehouse.checks.service"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**without_secrets(os.environ, drop=secret_names), "PYTHONPATH": path},
        )

    def check_table(self, table: str, data: pa.Table, context: CheckContext) -> list[QualityCheck]:
        """Return what `warehouse.checks.check_table` returns.

        If the process has died, the checks run in this process.
        """
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        try:
            pickle.dump((table, data, context), requests, protocol=pickle.HIGHEST_PROTOCOL)
            requests.flush()
            answer = pickle.load(answers)
        except (OSError, EOFError, pickle.UnpicklingError):
            return check_table(table, data, context)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate(timeout=_END_S)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each request with its checks, or with the exception raised, until stdin closes."""
    while True:
        try:
            table, data, context = pickle.load(requests)
        except EOFError:
            return
        try:
            answer: list[QualityCheck] | Exception = check_table(table, data, context)
        except Exception as error:  # noqa: BLE001 - the starter raises it
            answer = error
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


def _main() -> None:
    from warehouse.checks import warm

    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # A terminal sends Ctrl-C to all processes; the starter decides.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Prints of libraries must not reach the answers.
    gc.disable()  # Collections take a fifth of the import, and free nothing.
    warm()
    gc.freeze()
    gc.enable()
    os.nice(_NICENESS)
    try:
        serve(sys.stdin.buffer, answers)
    except BrokenPipeError:  # The starter has ended, so nobody reads the answer.
        os._exit(0)


if __name__ == "__main__":
    _main()
