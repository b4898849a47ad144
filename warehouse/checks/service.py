"""Checks tables in a process of its own: it imports Great Expectations while the one that asks starts other things.

Requests and answers are pickles on the process's stdin and stdout. It ends with its stdin, so with whoever started it.
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
"""Dialogues that are played meanwhile go first: their endpoints would idle."""


class CheckService:
    """The process as its starter sees it. For one thread at a time.

    Args:
        secret_names: variables that it must not see, besides those that look like keys.
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
        """As `warehouse.checks.check_table`, which does the work here if the process has died."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        try:
            pickle.dump((table, data, context), asked, protocol=pickle.HIGHEST_PROTOCOL)
            asked.flush()
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
    """Answer each request with its checks, or with the exception that they ended in, until there are no more."""
    while True:
        try:
            table, data, context = pickle.load(requests)
        except EOFError:
            return
        try:
            answer: list[QualityCheck] | Exception = check_table(table, data, context)
        except Exception as error:  # noqa: BLE001 - raised where the request came from
            answer = error
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


def _main() -> None:
    from warehouse.checks import warm

    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal sends Ctrl-C to all; the starter decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    gc.disable()  # collections take a fifth of the import, and free nothing
    warm()
    gc.freeze()
    gc.enable()
    os.nice(_NICENESS)
    try:
        serve(sys.stdin.buffer, answers)
    except BrokenPipeError:  # whoever asked was ended, and nobody is to be told
        os._exit(0)


if __name__ == "__main__":
    _main()
