"""Supervisor of a repository's tests, which run on the Python of the repository's environment.

The script is trusted, and runs in the sandbox on Parley's Python or on an image's `python3`. It
uses the supervisor of `run_function_tests.py`, which documents the supervisor's rules. Here the
program is not a fork of the supervisor: the interpreter in the arguments, which may be as old as
Python 3.5, executes `project_tests.py`.

Arguments: environment variables for that interpreter (`NAME=VALUE` each), `--`, the interpreter,
its flags. The variable PARLEY_SERVICES (JSON) describes programs that listen on a port of loopback
while the tests run: `packages` is their folder, and each of `services` has a `port` and the
interpreter's `arguments`.
"""

from __future__ import annotations

import os
import sys
import time
from _signal import SIGKILL  # pyright: ignore[reportMissingImports]  (a built-in module: signal would import enum)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from run_function_tests import main, own_child

sys.path.pop(0)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "project_tests.py")
_ANSWERS, _QUESTIONS = 3, 4
_FIRST_FREE = 10
_MANY = 1 << 16
_NOT_EXECUTED = 127
_SERVICES = "PARLEY_SERVICES"
_STARTS_WITHIN_S = 120


def start_program(answers: int, questions: int, to_program: int) -> dict[str, Any]:
    """Start the interpreter. The program's ends of the pipes become its descriptors 3 and 4."""
    split = sys.argv.index("--")
    variables, command = sys.argv[1:split], sys.argv[split + 1 :]
    environment = {**os.environ, **dict(item.split("=", 1) for item in variables)}
    services = _start_services(environment.pop(_SERVICES, ""), command[0])
    pid = os.fork()
    if pid:
        return _with_services(own_child(pid), services)
    try:
        _place((os.open(os.devnull, os.O_RDONLY), answers, questions))
        os.execvpe(command[0], [*command, PROGRAM], environment)
    finally:
        os._exit(_NOT_EXECUTED)


def _start_services(text: str, python: str) -> list[int]:
    """Start the services, wait until each accepts connections, and return their process ids."""
    if not text:
        return []
    import json

    job = json.loads(text)
    environment = {**os.environ, "PYTHONPATH": job["packages"]}
    started = []
    for service in job["services"]:
        pid = os.fork()
        if not pid:
            try:
                _place((os.open(os.devnull, os.O_RDONLY),), (0,))
                os.chdir("/")
                os.execvpe(python, [python, *service["arguments"]], environment)
            finally:
                os._exit(_NOT_EXECUTED)
        started.append(pid)
        _wait_for_port(service["port"], pid)
    return started


def _wait_for_port(port: int, pid: int) -> None:
    import socket

    deadline = time.monotonic() + _STARTS_WITHIN_S
    while True:
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > deadline or os.waitpid(pid, os.WNOHANG)[0]:
            sys.exit(f"a service that the tests need did not start on port {port}")
        time.sleep(0.05)


def _with_services(program: dict[str, Any], services: list[int]) -> dict[str, Any]:
    """Return the program with a `wait` that also ends the services."""
    wait_for_program = program["wait"]

    def wait() -> tuple[int, float]:
        ended = wait_for_program()
        for pid in services:
            os.kill(pid, SIGKILL)
            os.waitpid(pid, 0)
        return ended

    return {**program, "wait": wait}


def _place(
    descriptors: tuple[int, ...], numbers: tuple[int, ...] = (0, _ANSWERS, _QUESTIONS)
) -> None:
    """Move the descriptors to `numbers`, and close all other descriptors except 1 and 2."""
    import fcntl

    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, _FIRST_FREE) for descriptor in descriptors]
    for descriptor, number in zip(moved, numbers):  # noqa: B905 - an image's Python may have no `strict`
        os.dup2(descriptor, number)
    for descriptor in range(3, _QUESTIONS + 1):
        if descriptor not in numbers:
            os.close(descriptor)
    os.closerange(_QUESTIONS + 1, _MANY)


if __name__ == "__main__":
    main(start_program)
