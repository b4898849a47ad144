"""A rival of the sandboxes: a fork without any isolation, in the way of HumanEval's own harness.

A manager's list for the answer, a child for the program, a temporary folder, a timer, output thrown
away, dangerous functions taken out; the parent joins with a limit. Prints runs/s and ms as JSON.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict
from importlib import import_module
from typing import Any

from tests.bench.pace import speed

LIMIT_S = 10.0
_TAKEN_OUT = (
    "kill",
    "system",
    "putenv",
    "remove",
    "removedirs",
    "rmdir",
    "fchdir",
    "setuid",
    "fork",
    "forkpty",
    "killpg",
)
_ALSO_TAKEN_OUT = (
    "rename",
    "renames",
    "truncate",
    "replace",
    "unlink",
    "fchmod",
    "fchown",
    "chmod",
    "chown",
    "chroot",
    "chdir",
)


class OutOfTime(Exception):
    pass


def guarded_run(program: str, answer: Any) -> None:
    """In the child."""
    folder = tempfile.mkdtemp()
    rmtree, chdir, rmdir, unlink = shutil.rmtree, os.chdir, os.rmdir, os.unlink
    chdir(folder)
    for name in (*_TAKEN_OUT, *_ALSO_TAKEN_OUT):
        setattr(os, name, None)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            signal.signal(signal.SIGALRM, _stop)
            signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
            try:
                exec(program, {})
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        answer.append("passed")
    except BaseException as error:  # noqa: BLE001 - as there
        answer.append(f"failed: {error}")
    os.rmdir, os.unlink, os.chdir = rmdir, unlink, chdir
    chdir("/")
    rmtree(folder)


def _stop(*_: object) -> None:
    raise OutOfTime


def run(program: str) -> None:
    """One run, to its answer."""
    with multiprocessing.Manager() as manager:
        answer: Any = manager.list()
        child = multiprocessing.Process(target=guarded_run, args=(program, answer))
        child.start()
        child.join(LIMIT_S + 1)
        if child.is_alive():
            child.kill()
        said = list(answer)
    if said != ["passed"]:
        raise RuntimeError(f"unisolated fork: {said}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--preload", nargs="*", default=[])
    arguments = parser.parse_args()
    for name in arguments.preload:
        import_module(name)
    json.dump(asdict(speed(lambda: run(arguments.program), arguments.seconds)), sys.stdout)


if __name__ == "__main__":
    main()
